// Decoders with mixtures of experts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/index.h"
#include "base/text.h"
#include "model/families.h"

namespace nest::model::families {
namespace {

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

// What a family of mixtures says beyond its decoder.
struct MixtureDefaults {
  std::int64_t experts = 0;  // 0: the file must say
  std::int64_t top_k = 0;
  std::string_view width_key = "moe_intermediate_size";
  std::string_view shared_key = {};
  std::int64_t shared = 0;
};

Mixture read_mixture(Config& config, const Decoder& decoder, const MixtureDefaults& defaults) {
  FeedForward expert = *decoder.block.feed_forward;
  expert.width = config.size_or({defaults.width_key}, expert.width, kMaxWidth);
  const auto number = [&](Keys keys, std::int64_t otherwise) {
    return otherwise > 0 ? config.size_or(keys, otherwise, kMaxExperts) : config.size(keys, kMaxExperts);
  };
  const std::int64_t experts = number(kExpertKeys, defaults.experts);
  Mixture mixture = make_mixture(config, kExpertKeys, experts, kTopKKeys, number(kTopKKeys, defaults.top_k), expert);
  if (!defaults.shared_key.empty()) read_shared_experts(config, defaults.shared_key, defaults.shared, mixture);
  return mixture;
}

std::vector<bool> nowhere(const std::vector<bool>& layers) { return std::vector<bool>(layers.size(), false); }

Architecture assemble_all_sparse(Config& config, Decoder decoder, const Mixture& mixture) {
  decoder.block = with_mixture(decoder.block, mixture);
  return assemble(config, std::move(decoder));
}

Architecture read_granitemoe(Config& config) {
  Decoder decoder = read_decoder(config, {});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  Mixture mixture = read_mixture(config, decoder, {.experts = 8, .top_k = 2, .width_key = "intermediate_size"});
  if (const auto shared = config.size_unless_null("shared_intermediate_size", 0, kMaxWidth)) {
    mixture.shared = mixture.expert;
    mixture.shared->width = *shared;
  }
  return assemble_all_sparse(config, std::move(decoder), mixture);
}

Architecture read_olmoe(Config& config) {
  Decoder decoder = read_decoder(config, {.positions = 4096});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.qk_norm = QkNorm::full_width;
  const Mixture mixture = read_mixture(config, decoder, {.experts = 64, .top_k = 8, .width_key = "intermediate_size"});
  return assemble_all_sparse(config, std::move(decoder), mixture);
}

Architecture read_flex_olmo(Config& config) {
  Decoder decoder = read_decoder(config, {.positions = 4096});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.qk_norm = QkNorm::full_width;
  decoder.block.wiring = Wiring::output_norm;
  const Mixture mixture = read_mixture(config, decoder, {.experts = 7, .top_k = 5, .width_key = "intermediate_size"});
  return assemble_all_sparse(config, std::move(decoder), mixture);
}

Architecture read_minimax_m2(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .head_dim = 128, .positions = 196608});
  decoder.block.attention.qk_norm = QkNorm::full_width;
  const Mixture mixture = read_mixture(config, decoder, {.experts = 256, .top_k = 8, .width_key = "intermediate_size"});
  return assemble_all_sparse(config, std::move(decoder), mixture);
}

Architecture read_phimoe(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .positions = 131072, .norm = NormKind::layer});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.window = config.maybe_size({"sliding_window"}, kMaxPositions).value_or(0);
  decoder.architecture.head_bias = config.flag_or("lm_head_bias", false);
  const Mixture mixture = read_mixture(config, decoder, {.experts = 16, .top_k = 2, .width_key = "intermediate_size"});
  return assemble_all_sparse(config, std::move(decoder), mixture);
}

// GLM-4.5 and its kin: grouped-query attention, fine-grained experts beside shared ones after the first dense layers.
struct GlmDefaults {
  Habits habits = {};
  MixtureDefaults mixture = {};
  std::int64_t dense = 1;
  bool input_bias_only = true;
  std::optional<QkNorm> qk_norm = std::nullopt;  // nothing: as use_qk_norm says
};

Architecture read_glm_moe(Config& config, const GlmDefaults& defaults) {
  Habits habits = defaults.habits;
  if (!config.has("intermediate_size")) habits.width = config.size({"moe_intermediate_size"}, kMaxWidth);
  // Its class rounds the quotient down.
  if (!config.has("head_dim") && !habits.head_dim) {
    habits.head_dim = std::max<std::int64_t>(
        2, config.size({"hidden_size"}, kMaxHidden) / config.size({"num_attention_heads"}, kMaxHeads));
  }
  Decoder decoder = read_decoder(config, habits);
  Attention& attention = decoder.block.attention;
  set_attention_bias(attention, config.flag_or("attention_bias", false));
  if (defaults.input_bias_only) attention.output_bias = false;
  // An odd share is rotated with one more.
  const double rotated = std::floor(real(attention.head_dim) * attention.rotary_fraction + 1e-9);
  if (std::fmod(rotated, 2) != 0 && rotated < real(attention.head_dim)) {
    attention.rotary_fraction = (rotated + 1) / real(attention.head_dim);
  }
  const bool normed = config.flag_or("use_qk_norm", false);
  attention.qk_norm = defaults.qk_norm.value_or(normed ? QkNorm::per_head : QkNorm::none);
  Mixture mixture = read_mixture(config, decoder, defaults.mixture);
  read_groups(config, "n_group", "topk_group", mixture);
  const auto sparse = after_dense_layers(config, decoder.layers, defaults.dense);
  return assemble_sparse(config, std::move(decoder), mixture, sparse, std::nullopt, nowhere(sparse));
}

constexpr MixtureDefaults kGlmMixture = {.experts = 128, .top_k = 8, .shared_key = "n_shared_experts", .shared = 1};

Architecture read_glm4_moe(Config& config) {
  return read_glm_moe(config,
                      {.habits = {.kv_heads = 8, .positions = 131072, .rotary_fraction = 0.5}, .mixture = kGlmMixture});
}

Architecture read_solar_open(Config& config) {
  return read_glm_moe(
      config, {.habits = {.kv_heads = 8, .head_dim = 128, .positions = 131072}, .mixture = kGlmMixture, .dense = 0});
}

Architecture read_dots1(Config& config) {
  return read_glm_moe(config, {.mixture = {.shared_key = "n_shared_experts", .shared = 0},
                               .dense = 0,
                               .input_bias_only = false,
                               .qk_norm = QkNorm::per_head});
}

Architecture read_exaone_moe(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 32});
  decoder.block.attention.qk_norm = QkNorm::per_head;
  Mixture mixture =
      read_mixture(config, decoder, {.experts = 64, .top_k = 8, .shared_key = "num_shared_experts", .shared = 1});
  read_groups(config, "n_group", "topk_group", mixture);
  const auto window = config.size_unless_null("sliding_window", 4096, kMaxPositions);
  const auto sparse = after_dense_layers(config, decoder.layers, 1);
  const auto sliding =
      sliding_layers(config, decoder.layers, [&](std::int64_t layer) { return window && (layer + 1) % 4 != 0; });
  return assemble_sparse(config, std::move(decoder), mixture, sparse, window, sliding);
}

// Gated attention between two pairs of norms; experts carry a bias that balances them.
Architecture read_afmoe(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 16, .head_dim = 128, .positions = 16384});
  Block& block = decoder.block;
  set_attention_bias(block.attention, config.flag_or("attention_bias", false));
  block.attention.qk_norm = QkNorm::per_head;
  block.attention.gate = true;
  block.wiring = Wiring::sandwich;
  Mixture mixture =
      read_mixture(config, decoder, {.experts = 64, .top_k = 6, .shared_key = "num_shared_experts", .shared = 2});
  mixture.router_bias = true;
  const auto window = config.size_unless_null("sliding_window", 1024, kMaxPositions);
  const std::int64_t dense = config.size_unless_null("num_dense_layers", 1, kMaxLayers).value_or(0);
  const auto sparse = sparse_layers(config, decoder.layers, [&](std::int64_t layer) { return layer >= dense; });
  const auto sliding = sliding_layers(config, decoder.layers, [](std::int64_t layer) { return (layer + 1) % 4 != 0; });
  return assemble_sparse(config, std::move(decoder), mixture, sparse, window, sliding);
}

Architecture read_cohere2_moe(Config& config) {
  Decoder decoder = read_decoder(config, {.positions = 8192, .tied = true, .norm = NormKind::layer});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.norm_bias = false;
  decoder.block.wiring = Wiring::parallel_one;
  const Mixture mixture = read_mixture(
      config, decoder,
      {.experts = 8, .top_k = 2, .width_key = "intermediate_size", .shared_key = "num_shared_experts", .shared = 0});
  const auto window = config.size_unless_null("sliding_window", 4096, kMaxPositions);
  const auto sparse = sparse_layers(config, decoder.layers, [](std::int64_t) { return true; });
  const auto sliding = sliding_layers(config, decoder.layers, [](std::int64_t layer) { return (layer + 1) % 4 != 0; });
  return assemble_sparse(config, std::move(decoder), mixture, sparse, window, sliding);
}

// Values are narrower than queries and keys; layers with a window have sinks, and twice as many heads of keys and
// values.
Architecture read_mimo_v2(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 4, .head_dim = 192, .positions = 131072});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.value_dim = config.size_or({"v_head_dim"}, 128, kMaxWidth / kMaxHeads);
  Mixture mixture = read_mixture(config, decoder, {.experts = 256, .top_k = 8});
  read_groups(config, "n_group", "topk_group", mixture);
  const auto window = config.size_unless_null("sliding_window", 128, kMaxPositions);
  const auto sparse = after_dense_layers(config, decoder.layers, 1);
  const auto sliding = sliding_layers(config, decoder.layers, [](std::int64_t layer) { return layer % 5 != 0; });
  const std::int64_t heads = decoder.block.attention.heads;
  const std::int64_t kv_heads = std::min(heads, 2 * decoder.block.attention.kv_heads);
  const std::int64_t sliding_kv_heads = config.size_or({"swa_num_key_value_heads"}, kv_heads, kMaxHeads);
  if (heads % sliding_kv_heads != 0) {
    config.fail("swa_num_key_value_heads",
                fmt::format("{} key/value heads do not divide the {} heads", sliding_kv_heads, heads));
  }
  Architecture architecture = assemble_sparse(config, std::move(decoder), mixture, sparse, window, sliding);
  for (Block& block : architecture.towers.front().kinds) {
    if (block.attention.window == 0) continue;
    block.attention.sinks = true;
    block.attention.kv_heads = sliding_kv_heads;
  }
  return architecture;
}

// Experts and one shared expert of the same width in every `interleave_moe_layer_step`-th layer; three of four layers
// attend within chunks and rotate, the others neither.
Architecture read_llama4_text(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .head_dim = 128, .positions = 131072});
  Block& block = decoder.block;
  set_attention_bias(block.attention, config.flag_or("attention_bias", false));
  if (config.flag_or("use_qk_norm", true)) {
    block.attention.qk_norm = QkNorm::per_head;
    block.attention.qk_norm_weight = false;
  }
  Mixture mixture = read_mixture(config, decoder, {.experts = 16, .top_k = 1, .width_key = "intermediate_size"});
  mixture.shared = mixture.expert;
  block.feed_forward->width = config.size_or({"intermediate_size_mlp"}, 16384, kMaxWidth);
  const std::int64_t chunk = config.size_unless_null("attention_chunk_size", 8192, kMaxPositions).value_or(0);
  const auto listed = config.maybe_indices("moe_layers", decoder.layers);
  const std::int64_t step = config.size_or({"interleave_moe_layer_step"}, 1, kMaxLayers);
  std::vector<bool> sparse(at(decoder.layers), false);
  for (std::int64_t layer = 0; layer < decoder.layers; ++layer) sparse[at(layer)] = !listed && (layer + 1) % step == 0;
  if (listed) {
    for (const std::int64_t layer : *listed) sparse[at(layer)] = true;
  }
  const auto types = layer_words(config, "layer_types", decoder.layers, {"chunked_attention", "full_attention"});
  const Block common = block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    Block own = sparse[at(layer)] ? with_mixture(common, mixture) : common;
    const bool chunked = types ? (*types)[at(layer)] == "chunked_attention" : (layer + 1) % 4 != 0;
    if (chunked) {
      own.attention.chunk = chunk;
    } else {
      own.attention.rotary_fraction = 0;
      own.attention.qk_norm = QkNorm::none;
    }
    return own;
  });
}

// Numbers of experts and widths may differ between layers; nest takes files that say one.
Architecture read_ernie4_5_moe(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 4, .positions = 131072, .tied = true});
  const bool bias = config.flag_or("use_bias", false);
  set_attention_bias(decoder.block.attention, bias);
  set_feed_forward_bias(*decoder.block.feed_forward, bias);
  FeedForward expert = *decoder.block.feed_forward;
  expert.width = config.size_or({"moe_intermediate_size"}, 1536, kMaxWidth);
  Mixture mixture = make_mixture(config, {"moe_num_experts"}, config.size_or({"moe_num_experts"}, 64, kMaxExperts),
                                 {"moe_k"}, config.size_or({"moe_k"}, 6, kMaxExperts), expert);
  read_shared_experts(config, "moe_num_shared_experts", 2, mixture);
  const std::int64_t first = config.size_unless_null("moe_layer_start_index", 1, kMaxLayers).value_or(0);
  const std::int64_t interval = config.size_or({"moe_layer_interval"}, 1, kMaxLayers);
  const auto sparse = sparse_layers(config, decoder.layers,
                                    [&](std::int64_t layer) { return (layer + 1) % interval == 0 && layer >= first; });
  Architecture architecture =
      assemble_sparse(config, std::move(decoder), mixture, sparse, std::nullopt, nowhere(sparse));
  for (Block& block : architecture.towers.front().kinds) {
    if (block.mixture) block.scales = mixture.experts;  // the correction that balances the experts
  }
  return architecture;
}

Architecture read_hunyuan_moe(Config& config) {
  Decoder decoder = read_decoder(config, {});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.qk_norm = QkNorm::per_head;
  Mixture mixture = make_mixture(config, kExpertKeys, config.size(kExpertKeys, kMaxExperts), {"moe_topk"},
                                 config.size({"moe_topk"}, kMaxExperts), *decoder.block.feed_forward);
  mixture.shared = mixture.expert;
  return assemble_all_sparse(config, std::move(decoder), mixture);
}

// Grouped-query attention with norms of heads, experts beside a shared one in all layers but the first.
Architecture read_hy_v3(Config& config) {
  Decoder decoder = read_decoder(config, {.kv_heads = 8, .head_dim = 128, .positions = 131072});
  set_attention_bias(decoder.block.attention, config.flag_or("attention_bias", false));
  decoder.block.attention.qk_norm = QkNorm::per_head;
  MixtureDefaults defaults{.experts = 192, .top_k = 8, .shared_key = "num_shared_experts", .shared = 1};
  Mixture mixture = read_mixture(config, decoder, defaults);
  const bool bias = config.flag_or("mlp_bias", false);  // of dense layers and the shared expert
  set_feed_forward_bias(*decoder.block.feed_forward, bias);
  if (mixture.shared) set_feed_forward_bias(*mixture.shared, bias);
  const auto sparse = sparse_layers(config, decoder.layers, [](std::int64_t layer) { return layer > 0; });
  return assemble_sparse(config, std::move(decoder), mixture, sparse, std::nullopt, nowhere(sparse));
}

// Keys of its own, those of attention and experts in objects of their own.
Architecture read_dbrx(Config& config) {
  Decoder decoder;
  Architecture& architecture = decoder.architecture;
  architecture.hidden = config.size_or({"d_model", "hidden_size"}, 2048, kMaxHidden);
  architecture.vocabulary = config.size_or({"vocab_size"}, 32000, kMaxVocabulary);
  architecture.max_positions = config.size_or({"max_seq_len", "max_position_embeddings"}, 2048, kMaxPositions);
  architecture.dropout = config.probability_or("resid_pdrop", 0);
  decoder.layers = config.size_or({"n_layers", "num_hidden_layers"}, 24, kMaxLayers);
  const Keys heads_keys = {"n_heads", "num_attention_heads"};
  const std::int64_t heads = config.size_or(heads_keys, 16, kMaxHeads);
  std::int64_t kv_heads = 1, width = 3584, experts = 4, top_k = 1;
  if (auto attention = config.maybe_section("attn_config")) {
    kv_heads = attention->size_or({"kv_n_heads"}, kv_heads, kMaxHeads);
    architecture.attention_dropout = attention->probability_or("attn_pdrop", 0);
  }
  Block& block = decoder.block;
  block.attention = make_attention(config, heads_keys, architecture.hidden, heads, kv_heads, std::nullopt);
  FeedForward expert{.gated = true};
  if (auto feed_forward = config.maybe_section("ffn_config")) {
    width = feed_forward->size_or({"ffn_hidden_size"}, width, kMaxWidth);
    experts = feed_forward->size_or({"moe_num_experts"}, experts, kMaxExperts);
    top_k = feed_forward->size_or({"moe_top_k"}, top_k, kMaxExperts);
    if (auto activation = feed_forward->maybe_section("ffn_act_fn"))
      expert.activation = activation->activation_or({"name"}, Activation::silu);
  }
  expert.width = width;
  block.norm = NormKind::layer;
  return assemble_all_sparse(config, std::move(decoder),
                             make_mixture(config, {"moe_num_experts"}, experts, {"moe_top_k"}, top_k, expert));
}

Architecture read_glm4v_moe_text(Config& config) {
  return read_glm_moe(config,
                      {.habits = {.kv_heads = 8, .positions = 65536, .rotary_fraction = 0.5}, .mixture = kGlmMixture});
}

constexpr std::array kSparseFamilies = std::to_array<Family>({
    {"afmoe", read_afmoe},
    {"cohere2_moe", read_cohere2_moe},
    {"dbrx", read_dbrx},
    {"dots1", read_dots1},
    {"ernie4_5_moe", read_ernie4_5_moe},
    {"exaone_moe", read_exaone_moe},
    {"flex_olmo", read_flex_olmo},
    {"glm4_moe", read_glm4_moe},
    {"glm4v_moe_text", read_glm4v_moe_text},
    {"gpt_oss", read_gpt_oss},
    {"granitemoe", read_granitemoe},
    {"granitemoeshared", read_granitemoe},
    {"hunyuan_v1_moe", read_hunyuan_moe},
    {"hy_v3", read_hy_v3},
    {"llama4_text", read_llama4_text},
    {"mimo_v2_flash", read_mimo_v2},
    {"minimax_m2", read_minimax_m2},
    {"mixtral", read_mixtral},
    {"olmoe", read_olmoe},
    {"phimoe", read_phimoe},
    {"qwen2_moe", read_qwen2_moe},
    {"qwen3_moe", read_qwen3_moe},
    {"qwen3_omni_moe_text", read_qwen3_moe},
    {"solar_open", read_solar_open},
});

}  // namespace

// After the first dense layers every `moe_layer_freq`-th has experts, or as the file lists them.
std::vector<bool> after_dense_layers(Config& config, std::int64_t layers, std::int64_t default_dense) {
  const auto dense = config.size_unless_null("first_k_dense_replace", default_dense, kMaxLayers).value_or(0);
  const std::int64_t step = config.size_or({"moe_layer_freq"}, 1, kMaxLayers);
  return sparse_layers(config, layers, [&](std::int64_t layer) { return layer >= dense && layer % step == 0; });
}

std::span<const Family> sparse_families() { return kSparseFamilies; }

}  // namespace nest::model::families
