// What a model is, whatever its family: the answer of every reader of model files, and all that the graph builder sees.
//
// A model is a list of towers (one, or encoder and decoder), a tower a sequence of blocks, a block an attention part
// (or two) and a feed-forward part with their norms. Sizes are counts of elements. Nothing here depends on batch,
// sequence length or how the model is split. Structs compare with ==; equal blocks are one kind of layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nest/document.h"

namespace nest::model {

enum class NormKind : std::uint8_t { rms, layer };
// gelu_tanh is the fused kernel of the tanh approximation, gelu_new the same written out in Python (it keeps more).
enum class Activation : std::uint8_t { relu, gelu, gelu_tanh, gelu_new, silu, relu_squared };
enum class PositionKind : std::uint8_t { none, rotary, learned, alibi, relative };
enum class QkNorm : std::uint8_t { none, per_head, full_width };

// How norms and residual additions are arranged around the two sub-layers f (attention) and g (feed-forward).
enum class Wiring : std::uint8_t {
  pre_norm,      // x += f(n1 x); x += g(n2 x)                       most decoders
  post_norm,     // x = n1(x + f x); x = n2(x + g x)                 bert
  output_norm,   // x += n1(f x); x += n2(g x)                       olmo2
  sandwich,      // x += n2(f(n1 x)); x += n4(g(n3 x))               gemma 2 and 3
  parallel_one,  // x += f(n x) + g(n x), one shared norm            phi, falcon-7b
  parallel_two,  // x += f(n1 x) + g(n2 x)                           gpt-neox, falcon-40b
};

// Multi-head latent attention (DeepSeek): keys and values, and optionally queries, pass through low-rank latents.
struct LatentAttention {
  std::int64_t query_rank = 0;  // 0: queries are projected directly
  std::int64_t kv_rank = 0;
  std::int64_t nope_dim = 0;   // per head, without position
  std::int64_t rope_dim = 0;   // per head, with position; its key part is shared by all heads
  std::int64_t value_dim = 0;  // per head
  bool operator==(const LatentAttention&) const = default;
};

struct Attention {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  bool query_bias = false;  // q, k and v are asked separately because families differ in which carry one
  bool key_bias = false;
  bool value_bias = false;
  bool output_bias = false;
  QkNorm qk_norm = QkNorm::none;
  std::int64_t window = 0;  // keys a query sees, itself included; 0: all
  bool causal = true;
  bool sinks = false;                 // one learned logit per head (gpt_oss)
  std::int64_t relative_buckets = 0;  // this layer owns a table of relative position biases [buckets, heads] (t5)
  double rotary_fraction = 1.0;       // share of head_dim that is rotated
  std::optional<LatentAttention> latent;
  bool operator==(const Attention&) const = default;
};

struct FeedForward {
  std::int64_t width = 0;
  bool gated = false;  // two input projections, multiplied
  Activation activation = Activation::silu;
  bool up_bias = false;
  bool down_bias = false;
  bool operator==(const FeedForward&) const = default;
};

// Token-choice mixture of experts: every token goes to `top_k` of `experts`, and to the shared experts besides.
struct Mixture {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t groups = 1;  // of equally many experts; a token's experts lie in `top_groups` of them
  std::int64_t top_groups = 1;
  FeedForward expert;                 // one routed expert
  std::optional<FeedForward> shared;  // all shared experts as one feed-forward of their summed width
  bool shared_gate = false;           // a [hidden, 1] gate on the shared output (qwen2_moe)
  bool router_bias = false;
  bool operator==(const Mixture&) const = default;
};

struct Block {
  Attention attention;
  std::optional<Attention> cross_attention;  // reads the encoder's output
  std::optional<FeedForward> feed_forward;   // exactly one of feed_forward and mixture
  std::optional<Mixture> mixture;
  Wiring wiring = Wiring::pre_norm;
  NormKind norm = NormKind::rms;
  bool norm_bias = false;   // only LayerNorm has one
  bool norm_weight = true;  // some LayerNorms have neither weight nor bias
  bool operator==(const Block&) const = default;
};

struct Tower {
  std::string name;          // "decoder", "encoder"
  std::vector<Block> kinds;  // the distinct blocks
  std::vector<int> blocks;   // kind of every block, first to last
  bool final_norm = true;
  NormKind final_norm_kind = NormKind::rms;
  bool final_norm_bias = false;
  bool final_norm_weight = true;
};

struct Architecture {
  std::string name;    // as the user knows it: preset or file name
  std::string family;  // Hugging Face model_type
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;     // longest sequence the model is made for
  std::int64_t default_sequence = 0;  // what to train with when nobody says: usually max_positions, capped

  PositionKind position = PositionKind::rotary;
  std::int64_t position_rows = 0;    // rows of the learned position table (opt: two more than max_positions)
  std::int64_t token_types = 0;      // rows of the segment table (bert)
  std::int64_t embedding_width = 0;  // width of the token table where it differs from hidden (opt-350m), else 0
  bool embedding_norm = false;       // a norm right after the embeddings (bert, bloom)
  NormKind embedding_norm_kind = NormKind::layer;

  std::vector<Tower> towers;     // encoder before decoder
  bool tied_embeddings = false;  // the head reuses the token table
  bool head_bias = false;
  std::int64_t further_tokens = 0;  // depths of multi-token prediction that the config states; a run decides whether
                                    // they are trained (Implementation::mtp_layers)
  bool head_transform = false;      // dense [hidden, hidden] + activation + norm before the head (bert)
  double dropout = 0;               // on the residual stream, as the model's config states
  double attention_dropout = 0;

  Document document;  // what it was read from

  std::int64_t layers() const;  // blocks in all towers
};

// Readable names for messages, tables and JSON.
const char* to_string(NormKind kind);
const char* to_string(Activation activation);
const char* to_string(PositionKind kind);

}  // namespace nest::model
