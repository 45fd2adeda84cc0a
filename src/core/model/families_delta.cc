// Decoders whose layers carry states by the gated delta rule, beside layers that attend.
#include <array>

#include "base/index.h"
#include "model/families.h"

namespace nest::model::families {
namespace {

// Qwen3-Next's linear attention.
StateMixer read_gated_delta(Config& config) {
  StateMixer state;
  state.kind = StateKind::gated_delta;
  state.heads = config.size_or({"linear_num_value_heads"}, 32, kMaxHeads);
  state.groups = config.size_or({"linear_num_key_heads"}, 16, kMaxHeads);
  state.state = config.size_or({"linear_key_head_dim"}, 128, kMaxState);
  state.width = config.size_or({"linear_value_head_dim"}, 128, kMaxState);
  state.taps = config.size_or({"linear_conv_kernel_dim"}, 4, kMaxTaps);
  check_state(config, "linear_num_value_heads", state);
  return state;
}

// For every layer whether it carries a state: as listed, else all but every `full_attention_interval`-th.
std::vector<bool> linear_layers(Config& config, std::int64_t layers) {
  const auto types = layer_words(config, "layer_types", layers, {"linear_attention", "full_attention"});
  const std::int64_t interval = config.size_or({"full_attention_interval"}, 4, kMaxLayers);
  std::vector<bool> linear;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    linear.push_back(types ? (*types)[at(layer)] == "linear_attention" : (layer + 1) % interval != 0);
  }
  return linear;
}

// Three layers of linear attention to one of gated attention.
Architecture read_qwen_hybrid(Config& config, bool experts) {
  Habits habits{.kv_heads = 2, .head_dim = 256, .positions = 32768, .rotary_fraction = 0.25};
  if (experts && !config.has("intermediate_size")) habits.width = 5632;
  Decoder decoder = read_decoder(config, habits);
  Block& block = decoder.block;
  set_attention_bias(block.attention, config.flag_or("attention_bias", false));
  block.attention.qk_norm = QkNorm::per_head;
  block.attention.gate = true;
  std::vector<bool> sparse(at(decoder.layers), experts);
  std::optional<Mixture> mixture;
  if (experts) {
    FeedForward expert = *block.feed_forward;
    expert.width = config.size_or({"moe_intermediate_size"}, 512, kMaxWidth);
    mixture = make_mixture(config, kExpertKeys, config.size_or(kExpertKeys, 512, kMaxExperts), kTopKKeys,
                           config.size_or(kTopKKeys, 10, kMaxExperts), expert);
    mixture->shared = expert;
    mixture->shared->width = config.size_or({"shared_expert_intermediate_size"}, 512, kMaxWidth);
    mixture->shared_gate = true;
    const std::int64_t step = config.size_or({"decoder_sparse_step"}, 1, kMaxLayers);
    for (std::int64_t layer = 0; layer < decoder.layers; ++layer) sparse[at(layer)] = (layer + 1) % step == 0;
    for (const std::int64_t layer :
         config.maybe_indices("mlp_only_layers", decoder.layers).value_or(std::vector<std::int64_t>())) {
      sparse[at(layer)] = false;
    }
  }
  const StateMixer state = read_gated_delta(config);
  const auto linear = linear_layers(config, decoder.layers);
  const Block common = block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    const Block own = sparse[at(layer)] ? with_mixture(common, *mixture) : common;
    return linear[at(layer)] ? with_state(own, state) : own;
  });
}

Architecture read_qwen3_next(Config& config) { return read_qwen_hybrid(config, true); }
Architecture read_qwen3_5_text(Config& config) { return read_qwen_hybrid(config, false); }

// OLMo 3's attention with norms of results, and linear attention with norms of inputs.
Architecture read_olmo_hybrid(Config& config) {
  Decoder decoder = read_decoder(config, {.positions = 65536});
  Block& block = decoder.block;
  set_attention_bias(block.attention, config.flag_or("attention_bias", false));
  block.attention.qk_norm = QkNorm::full_width;
  StateMixer state;
  state.kind = StateKind::gated_delta;
  state.heads = config.size_or({"linear_num_value_heads"}, block.attention.heads, kMaxHeads);
  state.groups = config.size_or({"linear_num_key_heads"}, block.attention.heads, kMaxHeads);
  state.state = config.size_or({"linear_key_head_dim"}, 96, kMaxState);
  state.width = config.size_or({"linear_value_head_dim"}, 192, kMaxState);
  state.taps = config.size_or({"linear_conv_kernel_dim"}, 4, kMaxTaps);
  check_state(config, "linear_num_value_heads", state);
  const auto linear = linear_layers(config, decoder.layers);
  Block attending = block;
  attending.wiring = Wiring::output_norm;
  const Block carrying = with_state(block, state);
  return assemble(config, std::move(decoder),
                  [&](std::int64_t layer) { return linear[at(layer)] ? carrying : attending; });
}

// Delta attention whose decay and gate are vectors, and latent attention that does not rotate.
Architecture read_kimi_linear(Config& config) {
  Decoder decoder = read_decoder(config, {.head_dim = 72, .positions = 1048576});
  decoder.architecture.max_positions = config.size_or({"model_max_length"}, 1048576, kMaxPositions);
  Block& block = decoder.block;
  read_latent_attention(config, block.attention, {0, 512, 128, 64, 128});
  block.attention.rotary_fraction = 0;
  FeedForward expert = *block.feed_forward;
  expert.width = config.size({"moe_intermediate_size"}, kMaxWidth);
  Mixture mixture = make_mixture(config, kExpertKeys, config.size(kExpertKeys, kMaxExperts), kTopKKeys,
                                 config.size(kTopKKeys, kMaxExperts), expert);
  read_groups(config, "num_expert_group", "topk_group", mixture);
  read_shared_experts(config, "num_shared_experts", 1, mixture);
  StateMixer state;
  state.kind = StateKind::gated_delta;
  state.heads = state.groups = config.size_or({"linear_num_heads"}, 32, kMaxHeads);
  state.state = state.width = config.size_or({"linear_head_dim"}, 128, kMaxState);
  state.rank = state.width;
  state.taps = config.size_or({"linear_conv_kernel_dim"}, 4, kMaxTaps);
  check_state(config, "linear_num_heads", state);
  const std::int64_t dense = config.size_unless_null("first_k_dense_replace", 1, kMaxLayers).value_or(0);
  const auto sparse = sparse_layers(config, decoder.layers, [&](std::int64_t layer) { return layer >= dense; });
  const auto linear = linear_layers(config, decoder.layers);
  const Block common = block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    const Block own = sparse[at(layer)] ? with_mixture(common, mixture) : common;
    return linear[at(layer)] ? with_state(own, state) : own;
  });
}

constexpr std::array kDeltaFamilies = std::to_array<Family>({
    {"kimi_linear", read_kimi_linear},
    {"olmo_hybrid", read_olmo_hybrid},
    {"qwen3_5_moe_text", read_qwen3_next},
    {"qwen3_5_text", read_qwen3_5_text},
    {"qwen3_next", read_qwen3_next},
});

}  // namespace

std::span<const Family> delta_families() { return kDeltaFamilies; }

}  // namespace nest::model::families
