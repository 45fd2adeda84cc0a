// Decoders with mixtures of experts.
#include <fmt/format.h>

#include "base/index.h"
#include "base/text.h"
#include "model/families.h"

namespace nest::model::families {
namespace {

// The same quantity was renamed from family to family, and again by transformers 5.
constexpr Keys kExpertKeys = {"num_local_experts", "num_experts", "n_routed_experts"};
constexpr Keys kTopKKeys = {"num_experts_per_tok", "experts_per_token"};

// Turns a dense block into its sparse counterpart.
Block with_mixture(Block block, const Mixture& mixture) {
  block.feed_forward.reset();
  block.mixture = mixture;
  return block;
}

// Qwen alternates by `decoder_sparse_step`, with `mlp_only_layers` as exceptions.
std::vector<bool> qwen_sparse_layers(Config& config, std::int64_t layers) {
  const std::int64_t step = config.size_or({"decoder_sparse_step"}, 1, kMaxLayers);
  std::vector<bool> sparse;
  for (std::int64_t layer = 0; layer < layers; ++layer) sparse.push_back((layer + 1) % step == 0);
  for (const std::int64_t layer :
       config.maybe_indices("mlp_only_layers", layers).value_or(std::vector<std::int64_t>())) {
    sparse[at(layer)] = false;
  }
  return sparse;
}

struct QwenDefaults {
  std::int64_t experts;
  std::int64_t top_k;
  std::int64_t width;
};

Mixture read_qwen_mixture(Config& config, const Decoder& decoder, const QwenDefaults& defaults) {
  FeedForward expert = *decoder.block.feed_forward;
  expert.width = config.size_or({"moe_intermediate_size"}, defaults.width, kMaxWidth);
  return make_mixture(config, kExpertKeys, config.size_or(kExpertKeys, defaults.experts, kMaxExperts), kTopKKeys,
                      config.size_or(kTopKKeys, defaults.top_k, kMaxExperts), expert);
}

Architecture assemble_sparse(Config& config, Decoder decoder, const Mixture& mixture, const std::vector<bool>& sparse,
                             std::optional<std::int64_t> window, const std::vector<bool>& sliding) {
  const Block block = decoder.block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    const auto index = at(layer);
    Block chosen = sparse[index] ? with_mixture(block, mixture) : block;
    if (sliding[index]) chosen.attention.window = window.value_or(0);
    return chosen;
  });
}

LatentAttention read_latent(Config& config, const Attention& attention) {
  LatentAttention latent;
  latent.query_rank = config.size_unless_null("q_lora_rank", 1536, kMaxWidth).value_or(0);
  latent.kv_rank = config.size_or({"kv_lora_rank"}, 512, kMaxWidth);
  latent.nope_dim = config.size_or({"qk_nope_head_dim"}, 128, kMaxWidth / attention.heads);
  latent.rope_dim = config.size_or({"qk_rope_head_dim"}, 64, kMaxWidth / attention.heads);
  latent.value_dim = config.size_or({"v_head_dim"}, 128, kMaxWidth / attention.heads);
  if (latent.rope_dim % 2 != 0) {
    config.fail("qk_rope_head_dim", fmt::format("{} elements are rotated; allowed is an even number", latent.rope_dim));
  }
  return latent;
}

// Which layers have experts: after the first dense ones, every `moe_layer_freq`-th, or as the file lists them.
std::vector<bool> deepseek_sparse_layers(Config& config, std::int64_t layers, std::int64_t default_dense) {
  const auto dense = config.size_unless_null("first_k_dense_replace", default_dense, kMaxLayers).value_or(0);
  const std::int64_t step = config.size_or({"moe_layer_freq"}, 1, kMaxLayers);
  const auto listed = config.maybe_names("mlp_layer_types", kMaxLayers);
  if (listed && listed->size() != at(layers)) {
    config.fail("mlp_layer_types",
                fmt::format("{} entries for {} layers; allowed is one per layer", listed->size(), layers));
  }
  std::vector<bool> sparse;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (!listed) {
      sparse.push_back(layer >= dense && layer % step == 0);
      continue;
    }
    const std::string& type = (*listed)[at(layer)];
    if (type != "dense" && type != "sparse") {
      config.fail("mlp_layer_types", fmt::format("`{}` is not known; allowed are dense and sparse", clip(type, 40)));
    }
    sparse.push_back(type == "sparse");
  }
  return sparse;
}

struct DeepseekDefaults {
  std::int64_t positions;
  std::int64_t dense;
};

// Multi-head latent attention, fine-grained experts beside shared ones. Prediction of further tokens
// (num_nextn_predict_layers) is a training device that transformers leaves out; a run adds it where it is asked to.
Architecture read_deepseek(Config& config, const DeepseekDefaults& defaults) {
  Decoder decoder = read_decoder(config, {.head_dim = 64, .positions = defaults.positions});
  Attention& attention = decoder.block.attention;
  if (config.flag_or("attention_bias", false)) {
    config.fail("attention_bias", "true is not supported for latent attention; allowed is false");
  }
  attention.latent = read_latent(config, attention);
  attention.kv_heads = attention.heads;
  attention.head_dim = attention.latent->nope_dim + attention.latent->rope_dim;
  attention.rotary_fraction = real(attention.latent->rope_dim) / real(attention.head_dim);

  if (config.mentions("n_routed_experts") && !config.has("n_routed_experts")) {
    return assemble(config, std::move(decoder));  // null: a dense model
  }
  FeedForward expert = *decoder.block.feed_forward;
  expert.width = config.size({"moe_intermediate_size"}, kMaxWidth);
  Mixture mixture = make_mixture(config, kExpertKeys, config.size(kExpertKeys, kMaxExperts), kTopKKeys,
                                 config.size(kTopKKeys, kMaxExperts), expert);
  // DeepSeek-V2's greedy choice states its groups and does not use them.
  if (config.maybe_text("topk_method").value_or("") != "greedy") read_groups(config, "n_group", "topk_group", mixture);
  if (const auto shared = config.size_unless_null("n_shared_experts", 1, kMaxExperts)) {
    if (*shared > kMaxWidth / expert.width) {
      config.fail("n_shared_experts", fmt::format("{} shared experts of width {} are wider together than {}, the most "
                                                  "allowed",
                                                  *shared, expert.width, kMaxWidth));
    }
    mixture.shared = expert;
    mixture.shared->width = *shared * expert.width;
  }
  const auto sparse = deepseek_sparse_layers(config, decoder.layers, defaults.dense);
  const std::vector<bool> sliding(sparse.size(), false);
  return assemble_sparse(config, std::move(decoder), mixture, sparse, std::nullopt, sliding);
}

}  // namespace

Architecture read_mixtral(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .positions = 131072});
  decoder.block.attention.window = config.maybe_size({"sliding_window"}, kMaxPositions).value_or(0);
  decoder.block = with_mixture(decoder.block,
                               make_mixture(config, kExpertKeys, config.size_or(kExpertKeys, 8, kMaxExperts), kTopKKeys,
                                            config.size_or(kTopKKeys, 2, kMaxExperts), *decoder.block.feed_forward));
  return assemble(config, std::move(decoder));
}

Architecture read_qwen2_moe(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 16, .positions = 32768});
  set_attention_bias(decoder.block.attention, config.flag_or("qkv_bias", true));
  decoder.block.attention.output_bias = false;
  Mixture mixture = read_qwen_mixture(config, decoder, {.experts = 60, .top_k = 4, .width = 1408});
  mixture.shared = mixture.expert;
  mixture.shared->width = config.size_or({"shared_expert_intermediate_size"}, 5632, kMaxWidth);
  mixture.shared_gate = true;

  std::optional<std::int64_t> window;
  if (config.flag_or("use_sliding_window", false))
    window = config.size_unless_null("sliding_window", 4096, kMaxPositions);
  const std::int64_t last = config.size_unless_null("max_window_layers", 28, kMaxLayers).value_or(0);
  const auto sliding = sliding_layers(config, decoder.layers,
                                      [&](std::int64_t layer) { return window && layer % 2 == 0 && layer < last; });
  const auto sparse = qwen_sparse_layers(config, decoder.layers);
  return assemble_sparse(config, std::move(decoder), mixture, sparse, window, sliding);
}

Architecture read_qwen3_moe(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 4, .positions = 32768});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.qk_norm = QkNorm::per_head;
  const Mixture mixture = read_qwen_mixture(config, decoder, {.experts = 128, .top_k = 8, .width = 768});

  std::optional<std::int64_t> window;
  if (config.flag_or("use_sliding_window", false))
    window = config.size_unless_null("sliding_window", 4096, kMaxPositions);
  const auto sliding = sliding_layers(config, decoder.layers, [&](std::int64_t) { return window.has_value(); });
  const auto sparse = qwen_sparse_layers(config, decoder.layers);
  return assemble_sparse(config, std::move(decoder), mixture, sparse, window, sliding);
}

Architecture read_gpt_oss(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .head_dim = 64, .positions = 131072});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", true));
  decoder.block.attention.sinks = true;
  FeedForward expert = *decoder.block.feed_forward;
  set_feed_forward_bias(expert, true);
  Mixture mixture = make_mixture(config, kExpertKeys, config.size_or(kExpertKeys, 128, kMaxExperts), kTopKKeys,
                                 config.size_or(kTopKKeys, 4, kMaxExperts), expert);
  mixture.router_bias = true;
  decoder.block = with_mixture(decoder.block, mixture);
  const auto window = config.size_unless_null("sliding_window", 128, kMaxPositions);
  const auto sliding = sliding_layers(config, decoder.layers, [](std::int64_t layer) { return layer % 2 == 0; });
  return assemble_sliding(config, std::move(decoder), window, sliding);
}

Architecture read_deepseek_v2(Config& config) { return read_deepseek(config, {.positions = 2048, .dense = 0}); }

Architecture read_deepseek_v3(Config& config) { return read_deepseek(config, {.positions = 4096, .dense = 3}); }

}  // namespace nest::model::families
