// What a model is, whatever its family: the answer of every reader of model files, and all that the graph builder sees.
//
// A model is a list of towers (one, or encoder and decoder), a tower a sequence of blocks, a block a mixer of positions
// and an optional feed-forward part with their norms. A mixer is attention, a state that is carried along the sequence,
// both side by side (their results are summed), or nothing. Sizes are counts of elements. Nothing here depends on
// batch, sequence length or how the model is split. Structs compare with ==; equal blocks are one kind of layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nest/document.h"

namespace nest::model {

enum class NormKind : std::uint8_t { rms, layer };
// gelu_tanh is the fused kernel of the tanh approximation, gelu_new the same written out in Python (it keeps more).
// quick_gelu is x sigmoid(1.702 x).
enum class Activation : std::uint8_t { relu, gelu, gelu_tanh, gelu_new, quick_gelu, silu, relu_squared };
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

// Chooses the keys that attention sees (DeepSeek-V3.2): `heads` small heads of width `dim` score all earlier keys, and
// attention runs over the `top_k` best. Its queries come from the latent of queries.
//     parameters  query_rank heads dim + hidden dim + 2 dim + hidden heads
struct Indexer {
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  std::int64_t top_k = 0;
  bool shared = false;  // takes what the last layer before it that has an indexer of its own chose (GLM-5)
  bool operator==(const Indexer&) const = default;
};

struct Attention {
  std::int64_t heads = 0;  // 0: the block does not attend
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  bool query_bias = false;  // q, k and v are asked separately because families differ in which carry one
  bool key_bias = false;
  bool value_bias = false;
  bool output_bias = false;
  QkNorm qk_norm = QkNorm::none;
  NormKind qk_norm_kind = NormKind::rms;  // LayerNorm comes with its bias
  bool qk_norm_weight = true;
  std::int64_t value_dim = 0;           // of a head; 0: head_dim
  bool gate = false;                    // the result is multiplied by the sigmoid of a projection of the input
  std::optional<NormKind> output_norm;  // of the heads' results, before they are projected; LayerNorm with its bias
  std::int64_t window = 0;              // keys a query sees, itself included; 0: all
  std::int64_t chunk = 0;               // queries see their own chunk of so many positions only (llama4); 0: all
  bool causal = true;
  bool sinks = false;                 // one learned logit per head (gpt_oss)
  std::int64_t relative_buckets = 0;  // this layer owns a table of relative position biases [buckets, heads] (t5)
  double rotary_fraction = 1.0;       // share of head_dim that is rotated
  std::optional<LatentAttention> latent;
  std::optional<Indexer> indexer;  // with latent attention only
  bool borrows_keys = false;       // keys and values of the last layer before it of its kind that has its own (gemma 4)
  bool values_are_keys = false;    // as they are projected, before their norm and rotation (gemma 4)
  bool value_norm = false;         // an RMSNorm of every head's values, without weight
  double key_rows = 1;             // rows of keys and values to one of queries (pictures whose keys are convolved)
  bool operator==(const Attention&) const = default;

  std::int64_t value_width() const { return value_dim > 0 ? value_dim : head_dim; }
};

// Whether a block that borrows keys and values takes them from one with this attention: of its own, and of the same kind.
bool lends_keys(const Attention& attention, const Attention& borrower);

// Mixers that carry a state along the sequence; cost is linear in its length. H heads, G groups, N the state's (keys')
// width and P the values' width per head, c taps of a causal convolution, R a rank; h the stream's width.
//
//     gated_delta  keys and queries G N, values and gate H P, two numbers a head; convolution over 2GN + HP channels,
//                  a norm over P, gated (Qwen3-Next, OLMo hybrid). With R > 0 decay and gate are vectors that pass
//                  through rank R (Kimi Delta Attention)
//     mamba        selective scan over H P channels (H 1): steps through rank R, N states a channel
//     mamba2       2HP + 2GN + H inputs, convolution over HP + 2GN channels, a gated norm over HP
//     short_conv   three streams, two of them gates around a convolution; H P = h (LFM2)
//     rg_lru       two streams of H P, a convolution, gates within heads, a diagonal recurrence (RecurrentGemma)
//     lightning    linear attention with a fixed decay: q, k, v, a norm over H P and a gate (MiniMax)
//     rwkv         keys, values and receptances of H P channels with a decay per channel
enum class StateKind : std::uint8_t { gated_delta, mamba, mamba2, short_conv, rg_lru, lightning, rwkv };

struct StateMixer {
  StateKind kind = StateKind::mamba2;
  std::int64_t heads = 1;
  std::int64_t groups = 1;
  std::int64_t state = 0;  // N
  std::int64_t width = 0;  // P
  std::int64_t taps = 0;
  std::int64_t rank = 0;
  bool conv_bias = false;
  bool proj_bias = false;
  bool norm = true;         // the gated norm of mamba2
  bool inner_norm = false;  // mamba: norms of steps, keys and queries (jamba)
  bool operator==(const StateMixer&) const = default;

  std::int64_t inner() const { return heads * width; }
};

struct FeedForward {
  std::int64_t width = 0;
  bool gated = false;  // two input projections, multiplied
  Activation activation = Activation::silu;
  bool up_bias = false;
  bool down_bias = false;
  std::optional<NormKind> inner_norm = std::nullopt;  // of the activation's result; LayerNorm comes with its bias
  bool output_gate = false;       // the result is multiplied by the sigmoid of a [hidden, hidden] projection (rwkv)
  std::int64_t adapter_rank = 0;  // two products of this rank are added to gate and up (zamba2); 0: none
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
  std::int64_t latent = 0;            // routed tokens are projected to this width and back (nemotron_h); 0: not
  bool router_bias = false;
  bool operator==(const Mixture&) const = default;
};

// A transformer block that several layers run with the same weights (Zamba). It reads the stream beside the embeddings,
// 2h wide; what it gives is projected, h to h, and added to what the layer's own state reads. The projection and
// low-rank adapters beside the shared matrices are every layer's own.
//     x' = x + P g(n2 f(n1 [x, e])),  f of h outputs from 2h inputs
struct SharedBlock {
  std::int64_t number = 0;  // layers with the same number share
  Attention attention;
  FeedForward feed_forward;
  std::int64_t attention_rank = 0;  // of adapters of q, k and v; 0: none
  bool operator==(const SharedBlock&) const = default;
};

struct Block {
  Attention attention;
  std::optional<StateMixer> state;           // beside the attention where there are both
  std::optional<Attention> cross_attention;  // reads the encoder's output
  std::optional<FeedForward> feed_forward;   // with a mixture too they run side by side, but for most it is either
  std::optional<Mixture> mixture;
  std::optional<FeedForward> adapter;  // a last feed-forward without a norm, with a residual of its own (xmod)
  std::optional<SharedBlock> shared;   // before the state
  // A conformer's: a feed-forward like the block's own before attention, after it a gated convolution over so many
  // positions with norms before and inside, and a norm of all. 0: none.
  std::int64_t conformer_taps = 0;
  std::int64_t laurel_rank = 0;  // x + n(B A x) of this rank is added beside attention (gemma 3n); 0: none
  std::int64_t layer_input = 0;  // width of the layer's own embeddings, which gate the stream at the end; 0: none
  bool branch_norms = false;     // feed-forward and mixture side by side with norms of their own around each (gemma 4)
  Wiring wiring = Wiring::pre_norm;
  NormKind norm = NormKind::rms;
  bool norm_bias = false;       // only LayerNorm has one
  bool norm_weight = true;      // some LayerNorms have neither weight nor bias
  bool first_norm = true;       // false: the mixer reads the stream as it is (the first block of modernbert)
  bool residual_gates = false;  // what is added to the stream is multiplied by the tanh of one learned number (mllama)
  std::int64_t same_weights = 0;  // blocks with the same number other than 0 hold the same weights (albert)
  std::int64_t scales = 0;        // elements of learned scales whose arithmetic runs inside other kernels
  std::int64_t unused = 0;        // elements of weights that the block holds and training does not reach
  bool operator==(const Block&) const = default;

  bool attends() const { return attention.heads > 0; }
  bool mixes() const { return attends() || state.has_value(); }
  bool feeds() const { return feed_forward.has_value() || mixture.has_value(); }
};

// One step on the way from pictures or sound to rows of a stream, or from those to what the decoder reads.
enum class StepKind : std::uint8_t {
  linear,      // rows of `in` elements times [in, out]: patches, convolutions, projections
  norm,        // over `in` elements
  activation,  // of `in` elements
  gated,       // a gated feed-forward of width `width` from `in` to `out`, without biases
  table,       // a learned table of `in` rows is added
  join,        // rows of `out` elements: the stream beside outputs of earlier blocks
  unused,      // `in` elements of weights that training does not reach, or that cost nothing
};

struct Step {
  StepKind kind = StepKind::linear;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = false;
  NormKind norm = NormKind::layer;  // LayerNorm comes with its bias
  bool weight = true;               // of a norm
  std::int64_t width = 0;
  double rows = 0;  // of one picture or clip from here on; 0: as many as before
  std::string name = {};
};

// What a tower reads that is no text. A prefix hands its rows to the decoder's embedding, where they take the places of
// tokens that stand for them: the sequence does not get longer.
struct Media {
  std::vector<Step> stem;
  bool follows = false;  // the stem reads the output of the tower before, not a picture or clip
  double rows = 0;       // of one picture or clip, as the blocks see them
  double each = 1;       // pictures or clips of a sequence
  bool prefix = true;    // false: the decoder attends to the tower's output
  std::vector<Step> projector;
};

struct Tower {
  std::string name;          // "decoder", "encoder"
  std::vector<Block> kinds;  // the distinct blocks
  std::vector<int> blocks;   // kind of every block, first to last
  bool final_norm = true;
  NormKind final_norm_kind = NormKind::rms;
  bool final_norm_bias = false;
  bool final_norm_weight = true;
  std::int64_t hidden = 0;     // width of its stream where it differs from the model's, else 0
  std::optional<Media> media;  // reads pictures or sound
};

// Weights beside the blocks that training holds and does not reach, or whose arithmetic is nothing.
struct SpareWeight {
  std::string name;
  std::int64_t elements = 0;
};

struct Architecture {
  std::string name;    // as the user knows it: preset or file name
  std::string family;  // Hugging Face model_type
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;     // longest sequence the model is made for
  std::int64_t default_sequence = 0;  // what to train with when nobody says: usually max_positions, capped

  PositionKind position = PositionKind::rotary;
  std::int64_t position_rows = 0;  // rows of the learned position table (opt: two more than max_positions)
  std::int64_t token_types = 0;    // rows of the segment table (bert)
  std::vector<std::int64_t> further_tables = {};  // rows of tables that are looked up and added besides (layoutlm)
  std::int64_t embedding_width = 0;   // width of the token table where it differs from hidden (opt-350m), else 0
  bool narrow_tables = false;         // all tables, their norm and the head's transform have that width (electra)
  std::int64_t streams = 1;           // of hidden size each, of which blocks read the first and correct all (gemma 3n)
  std::int64_t layer_inputs = 0;      // width of a second table's row for all layers together; 0: no such table
  std::int64_t layer_vocabulary = 0;  // its rows
  bool embedding_norm = false;        // a norm right after the embeddings (bert, bloom)
  NormKind embedding_norm_kind = NormKind::layer;
  bool embedding_norm_bias = true;  // only LayerNorm has one
  bool embedding_norm_weight = true;

  std::vector<Tower> towers;     // encoder before decoder
  bool tied_embeddings = false;  // the head reuses the token table
  bool head_bias = false;
  std::int64_t further_tokens = 0;  // depths of multi-token prediction that the config states; a run decides whether
                                    // they are trained (Implementation::mtp_layers)
  bool head_transform = false;      // dense [hidden, hidden] + activation + norm before the head (bert)
  double dropout = 0;               // on the residual stream, as the model's config states
  double attention_dropout = 0;
  bool head_transform_bias = true;
  NormKind head_norm = NormKind::layer;
  std::vector<SpareWeight> spare;
  std::vector<std::string> notes;  // what the description leaves out of the file, for people

  Document document;  // what it was read from

  std::int64_t layers() const;  // blocks in all towers
};

// Readable names for messages, tables and JSON.
const char* to_string(NormKind kind);
const char* to_string(Activation activation);
const char* to_string(PositionKind kind);
const char* to_string(StateKind kind);

}  // namespace nest::model
