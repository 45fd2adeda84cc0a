// What the readers of the model families share; internal to config.cc and families_*.cc.
//
// A family is one function from a Config to an Architecture. Most decoders differ from Llama in a few habits only: they
// call read_decoder with their class's defaults, change what differs in the common block, and let `assemble` repeat it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
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
  double number_or(std::string_view key, double otherwise);  // between 0 and 1000
  // A size, or the word that stands for the usual one.
  std::int64_t word_or_size(std::string_view key, std::string_view word, std::int64_t usual, std::int64_t limit);
  Activation activation_or(Keys keys, Activation otherwise);
  // Share of a head's width that is rotated; transformers 5 moved it into rope_parameters.
  double rotary_fraction_or(std::string_view key, double otherwise);

  Config section(std::string_view key) { return Config(reader_.object(key)); }
  std::optional<Config> maybe_section(std::string_view key);
  bool has(std::string_view key) const { return reader_.has(key); }
  bool mentions(std::string_view key) const;  // present, if only as null
  bool is_list(std::string_view key);
  std::int64_t length_or(std::string_view key, std::int64_t otherwise);  // entries of a list
  std::string_view spelling(Keys keys) const;                            // the one that is used, else the first

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
  std::string_view width_key = "intermediate_size";  // empty: the width is `width`, whatever the file says
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

// One word per layer, as the file lists them under `key`; nothing where it does not.
std::optional<std::vector<std::string>> layer_words(Config& config, std::string_view key, std::int64_t layers,
                                                    const std::vector<std::string>& allowed);

// Layers that `mlp_layer_types` calls sparse, else those for which `by_default` says so.
std::vector<bool> sparse_layers(Config& config, std::int64_t layers,
                                const std::function<bool(std::int64_t)>& by_default);

// The same quantity was renamed from family to family, and again by transformers 5.
inline constexpr Keys kExpertKeys = {"num_local_experts", "num_experts", "n_routed_experts"};
inline constexpr Keys kTopKKeys = {"num_experts_per_tok", "experts_per_token", "num_experts_per_token"};

// A dense block's sparse counterpart.
Block with_mixture(Block block, const Mixture& mixture);

inline constexpr std::int64_t kMaxState = std::int64_t{1} << 12;  // of the widths of a state's heads
inline constexpr std::int64_t kMaxTaps = 64;

// Widths of heads, groups and states are limited each, and the products that they enter.
void check_state(const Config& config, std::string_view key, const StateMixer& state);

// A block that carries a state instead of attending.
Block with_state(Block block, const StateMixer& state);

// Shared experts of the routed ones' shape, as many as `key` says; `otherwise` where it is absent.
void read_shared_experts(Config& config, std::string_view key, std::int64_t otherwise, Mixture& mixture);

// Layers as in the decoder's block, with a mixture and a window where they are said to be.
Architecture assemble_sparse(Config& config, Decoder decoder, const Mixture& mixture, const std::vector<bool>& sparse,
                             std::optional<std::int64_t> window, const std::vector<bool>& sliding);

// After the first dense layers every `moe_layer_freq`-th has experts, or as the file lists them.
std::vector<bool> after_dense_layers(Config& config, std::int64_t layers, std::int64_t default_dense);

// Multi-head latent attention as DeepSeek's keys describe it; `defaults` are the class's.
void read_latent_attention(Config& config, Attention& attention, const LatentAttention& defaults);

// A description by the table of families, for configs inside others (text_config).
Architecture read_family(Config& config, std::string_view otherwise);

// What to do with a model that nest does not know, for refusals.
inline constexpr std::string_view kTraceInstead =
    "`python -m nest.trace config.json -o graph.json` builds the model with your transformers and traces it: "
    "graph.json "
    "is then a model like any other";

using Read = Architecture (*)(Config&);

// One table per file of families.
struct Family {
  std::string_view model_type;
  Read read;
};
std::span<const Family> llama_families();
std::span<const Family> gpt_families();
std::span<const Family> sparse_families();
std::span<const Family> latent_families();
std::span<const Family> gemma_families();
std::span<const Family> state_families();
std::span<const Family> delta_families();
std::span<const Family> encoder_families();
std::span<const Family> bart_families();
std::span<const Family> media_families();

Architecture read_llama(Config& config);
Architecture read_deepseek_v3(Config& config);
Architecture read_opt(Config& config);
Architecture read_bart(Config& config);
Architecture read_megatron(Config& config);

}  // namespace nest::model::families
