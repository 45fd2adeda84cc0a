// A GPT as Megatron-LM's options describe it (num_layers for --num-layers …), so that a launch line yields a model file
// like any other. Defaults are those of its command line: LayerNorm, biases, learned positions, tied tables.
#include <fmt/format.h>

#include "base/index.h"
#include "base/text.h"
#include "model/families.h"

namespace nest::model::families {
namespace {

constexpr Keys kHeads = {"num_attention_heads"};
constexpr Keys kExperts = {"num_experts"};
constexpr Keys kTopK = {"moe_router_topk"};

// One of a few words, or what stands first.
std::size_t read_word(Config& config, std::string_view key, const std::vector<std::string>& words) {
  const auto text = config.maybe_text(key);
  if (!text) return 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == *text) return i;
  }
  config.fail(key, fmt::format("`{}` is not supported; allowed are {}", clip(*text, 40), join_words(words)));
}

void read_norms(Config& config, Block& block) {
  const bool rms = read_word(config, "normalization", {"LayerNorm", "RMSNorm"}) == 1;
  block.norm = rms ? NormKind::rms : NormKind::layer;
  block.norm_bias = !rms;
}

void read_positions(Config& config, Architecture& architecture) {
  architecture.max_positions = config.size({"max_position_embeddings"}, kMaxPositions);
  constexpr PositionKind kKinds[] = {PositionKind::learned, PositionKind::rotary, PositionKind::none};
  architecture.position = kKinds[read_word(config, "position_embedding_type", {"learned_absolute", "rope", "none"})];
  if (architecture.position == PositionKind::learned) architecture.position_rows = architecture.max_positions;
}

Attention read_attention(Config& config, std::int64_t hidden, bool bias) {
  const std::int64_t heads = config.size(kHeads, kMaxHeads);
  const std::int64_t groups = config.size_or({"num_query_groups"}, heads, kMaxHeads);
  Attention attention =
      make_attention(config, kHeads, hidden, heads, groups, config.maybe_size({"kv_channels"}, kMaxWidth));
  set_attention_bias(attention, bias);
  if (config.flag_or("add_qkv_bias", false)) attention.query_bias = attention.key_bias = attention.value_bias = true;
  if (config.flag_or("qk_layernorm", false)) attention.qk_norm = QkNorm::per_head;
  attention.window = config.maybe_size({"window_size"}, kMaxPositions).value_or(0);
  attention.rotary_fraction = config.probability_or("rotary_percent", 1.0);
  if (!config.flag_or("multi_latent_attention", false)) return attention;
  attention.qk_norm = QkNorm::none;  // the latents' norms are part of latent attention
  LatentAttention latent;
  latent.query_rank = config.size_unless_null("q_lora_rank", 0, kMaxWidth).value_or(0);
  latent.kv_rank = config.size_or({"kv_lora_rank"}, 32, kMaxWidth);
  latent.nope_dim = config.size_or({"qk_head_dim"}, 128, kMaxWidth / heads);
  latent.rope_dim = config.size_or({"qk_pos_emb_head_dim"}, 64, kMaxWidth / heads);
  latent.value_dim = config.size_or({"v_head_dim"}, 128, kMaxWidth / heads);
  if (latent.rope_dim % 2 != 0) {
    config.fail("qk_pos_emb_head_dim",
                fmt::format("{} elements are rotated; allowed is an even number", latent.rope_dim));
  }
  attention.kv_heads = heads;
  attention.head_dim = latent.nope_dim + latent.rope_dim;
  attention.rotary_fraction = real(latent.rope_dim) / real(attention.head_dim);
  attention.latent = latent;
  return attention;
}

FeedForward read_feed_forward(Config& config, bool bias) {
  FeedForward feed_forward;
  feed_forward.width = config.size({"ffn_hidden_size"}, kMaxWidth);
  feed_forward.gated = config.flag_or("swiglu", false);
  const bool squared = config.flag_or("squared_relu", false);
  if (squared && feed_forward.gated) config.fail("squared_relu", "contradicts swiglu; allowed is one of the two");
  feed_forward.activation = feed_forward.gated ? Activation::silu
                            : squared          ? Activation::relu_squared
                                               : Activation::gelu_tanh;
  set_feed_forward_bias(feed_forward, bias);
  return feed_forward;
}

Mixture read_mixture(Config& config, FeedForward expert) {
  expert.width = config.size_or({"moe_ffn_hidden_size"}, expert.width, kMaxWidth);
  Mixture mixture = make_mixture(config, kExperts, config.size(kExperts, kMaxExperts), kTopK,
                                 config.size_or(kTopK, 2, kMaxExperts), expert);
  read_groups(config, "moe_router_num_groups", "moe_router_group_topk", mixture);
  if (const auto width = config.maybe_size({"moe_shared_expert_intermediate_size"}, kMaxWidth)) {
    mixture.shared = expert;
    mixture.shared->width = *width;
  }
  return mixture;
}

// moe_layer_freq as a list: 1 for every layer that has experts.
std::vector<std::int64_t> read_sparse_layers(Config& config, std::int64_t layers) {
  auto listed = config.maybe_indices("moe_layer_freq", kMaxLayers);
  if (!listed) return std::vector<std::int64_t>(at(layers), 1);
  if (static_cast<std::int64_t>(listed->size()) != layers) {
    config.fail("moe_layer_freq",
                fmt::format("{} entries for {} layers; allowed is one per layer", listed->size(), layers));
  }
  return *listed;
}

}  // namespace

Architecture read_megatron(Config& config) {
  Decoder decoder;
  Architecture& architecture = decoder.architecture;
  Block& block = decoder.block;
  architecture.hidden = config.size({"hidden_size"}, kMaxHidden);
  architecture.vocabulary = config.size({"vocab_size"}, kMaxVocabulary);
  architecture.tied_embeddings = !config.flag_or("untie_embeddings_and_output_weights", false);
  architecture.dropout = config.probability_or("hidden_dropout", 0.1);
  architecture.attention_dropout = config.probability_or("attention_dropout", 0.1);
  decoder.layers = config.size({"num_layers"}, kMaxLayers);
  read_positions(config, architecture);
  read_norms(config, block);
  const bool bias = config.flag_or("add_bias_linear", true);
  block.attention = read_attention(config, architecture.hidden, bias);
  block.feed_forward = read_feed_forward(config, bias);
  if (!config.has("num_experts")) return assemble(config, std::move(decoder));

  const Mixture mixture = read_mixture(config, *block.feed_forward);
  const std::vector<std::int64_t> sparse = read_sparse_layers(config, decoder.layers);
  const Block dense = block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    Block chosen = dense;
    if (sparse[at(layer)] == 0) return chosen;
    chosen.feed_forward.reset();
    chosen.mixture = mixture;
    return chosen;
  });
}

}  // namespace nest::model::families
