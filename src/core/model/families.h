// What the readers of the model families share; internal to config.cc and families_*.cc.
//
// A family is one function from a Config to an Architecture. Most decoders differ from Llama in a few habits only: they
// call read_decoder with their class's defaults, change what differs in the common block, and let `assemble` repeat it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doc/reader.h"
#include "model/architecture.h"

namespace nest::model::families {

inline constexpr std::int64_t kMaxHidden = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 24;  // of feed-forwards, and of all heads together
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 26;
inline constexpr std::int64_t kMaxLayers = std::int64_t{1} << 14;
inline constexpr std::int64_t kMaxHeads = std::int64_t{1} << 14;
inline constexpr std::int64_t kMaxExperts = std::int64_t{1} << 14;
inline constexpr std::int64_t kMaxPositions = std::int64_t{1} << 31;
inline constexpr double kMaxParameters =
    0x1p50;  // leaves 13 bits for bytes per parameter and sums before 63 bits are full

// Names of one quantity, in the order in which they are tried: families renamed their keys over time.
struct Keys {
  std::string_view first;
  std::string_view second = {};
  std::string_view third = {};
};

// A config.json with the vocabulary of such files: sizes are positive, limited integers.
class Config {
 public:
  explicit Config(doc::Reader reader) : reader_(std::move(reader)) {}

  std::int64_t size(Keys keys, std::int64_t limit);  // required
  std::int64_t size_or(Keys keys, std::int64_t otherwise, std::int64_t limit);
  std::optional<std::int64_t> maybe_size(Keys keys, std::int64_t limit);
  // transformers gives an absent key the class's default, but takes an explicit null (or 0) as "none".
  std::optional<std::int64_t> size_unless_null(std::string_view key, std::int64_t otherwise, std::int64_t limit);
  std::optional<std::vector<std::int64_t>> maybe_indices(std::string_view key, std::int64_t limit);
  std::optional<std::vector<std::string>> maybe_names(std::string_view key, std::int64_t limit);
  bool flag_or(std::string_view key, bool otherwise) { return reader_.flag_or(key, otherwise); }
  std::optional<std::string> maybe_text(std::string_view key) { return reader_.maybe_text(key); }
  double probability_or(std::string_view key, double otherwise);
  Activation activation_or(Keys keys, Activation otherwise);
  // Share of a head's width that is rotated; transformers 5 moved it into rope_parameters.
  double rotary_fraction_or(std::string_view key, double otherwise);

  Config section(std::string_view key) { return Config(reader_.object(key)); }
  bool has(std::string_view key) const { return reader_.has(key); }
  bool mentions(std::string_view key) const;   // present, if only as null
  std::string_view spelling(Keys keys) const;  // the one that is used, else the first

  [[noreturn]] void fail(std::string_view key, std::string_view message) const { reader_.fail(key, message); }

 private:
  doc::Reader reader_;
};

// The value of an activation's name as transformers spells it; nothing when unknown.
std::optional<Activation> parse_activation(std::string_view name);

// Defaults of a Llama-like config class. 0 or nothing: the file must say, or the usual derivation applies.
struct Habits {
  std::optional<std::int64_t> kv_heads = std::nullopt;  // nothing: as many as heads
  std::optional<std::int64_t> head_dim = std::nullopt;  // nothing: hidden / heads
  std::int64_t positions = 2048;
  bool tied = false;
  bool gated = true;
  Activation activation = Activation::silu;
  NormKind norm = NormKind::rms;
  std::string_view rotary_key = "partial_rotary_factor";
  double rotary_fraction = 1.0;
  std::int64_t hidden = 0;
  std::int64_t width = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t vocabulary = 0;
};

// A decoder-only model while it is being read: everything but its tower, and the block that its layers start from.
struct Decoder {
  Architecture architecture;
  Block block;
  std::int64_t layers = 0;
};

// Reads hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim,
// vocab_size, max_position_embeddings, hidden_act, tie_word_embeddings, attention_dropout. LayerNorm comes with its
// bias.
Decoder read_decoder(Config& config, const Habits& habits);

// Heads of one width each, checked to divide `hidden` unless `head_dim` is given.
Attention make_attention(const Config& config, Keys heads_keys, std::int64_t hidden, std::int64_t heads,
                         std::int64_t kv_heads, std::optional<std::int64_t> head_dim);

void set_attention_bias(Attention& attention, bool bias);  // of q, k, v and the output
void set_feed_forward_bias(FeedForward& feed_forward, bool bias);

using BlockOfLayer = std::function<Block(std::int64_t layer)>;

// A tower of `layers` blocks; equal ones become one kind.
Tower make_tower(std::string name, std::int64_t layers, const BlockOfLayer& block_of);

// The decoder's blocks, and checks that need all of them.
Architecture assemble(Config& config, Decoder decoder, const BlockOfLayer& block_of);
Architecture assemble(Config& config, Decoder decoder);  // all layers alike

// For every layer whether it attends to a window only: as `layer_types` says, else as `by_default` does.
std::vector<bool> sliding_layers(Config& config, std::int64_t layers,
                                 const std::function<bool(std::int64_t)>& by_default);

// Layers as in the decoder's block, with the window where `sliding` says so.
Architecture assemble_sliding(Config& config, Decoder decoder, std::optional<std::int64_t> window,
                              const std::vector<bool>& sliding);

// A router over `experts` equal experts.
Mixture make_mixture(const Config& config, Keys experts_keys, std::int64_t experts, Keys top_k_keys, std::int64_t top_k,
                     const FeedForward& expert);

// Experts in groups, of which a token's experts lie in a few (DeepSeek: a group is what one node holds). Absent: one
// group.
void read_groups(Config& config, std::string_view groups_key, std::string_view top_key, Mixture& mixture);

// Weights in matrices, roughly: enough to compare sizes and to refuse absurd ones.
double estimate_parameters(const Architecture& architecture);

Architecture read_llama(Config& config);
Architecture read_mistral(Config& config);
Architecture read_qwen2(Config& config);
Architecture read_qwen3(Config& config);
Architecture read_gemma(Config& config);
Architecture read_gemma2(Config& config);
Architecture read_gemma3(Config& config);
Architecture read_gemma3_text(Config& config);
Architecture read_phi3(Config& config);
Architecture read_starcoder2(Config& config);
Architecture read_nemotron(Config& config);
Architecture read_olmo2(Config& config);

Architecture read_mixtral(Config& config);
Architecture read_qwen2_moe(Config& config);
Architecture read_qwen3_moe(Config& config);
Architecture read_gpt_oss(Config& config);
Architecture read_deepseek_v2(Config& config);
Architecture read_deepseek_v3(Config& config);

Architecture read_gpt2(Config& config);
Architecture read_gpt_neox(Config& config);
Architecture read_opt(Config& config);
Architecture read_bloom(Config& config);
Architecture read_falcon(Config& config);
Architecture read_phi(Config& config);

Architecture read_bert(Config& config);
Architecture read_roberta(Config& config);
Architecture read_t5(Config& config);

Architecture read_megatron(Config& config);

}  // namespace nest::model::families
