// Decoders with multi-head latent attention and fine-grained experts: DeepSeek's and their kin.
#include <algorithm>
#include <array>

#include "base/index.h"
#include "model/families.h"

namespace nest::model::families {
namespace {

struct DeepseekDefaults {
  std::int64_t positions;
  std::int64_t dense;
  std::int64_t index_heads = 0;  // of the indexer that chooses the keys; 0: all are seen
  std::int64_t top_k = 8;
  LatentAttention latent = {.query_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
};

// For every layer whether it takes the keys that an earlier one chose: as listed, by letters, or all but every
// `index_topk_freq`-th after the first.
std::vector<bool> layers_that_share_choices(Config& config, std::int64_t layers) {
  auto words = layer_words(config, "indexer_types", layers, {"full", "shared"});
  if (!words && config.is_list("index_topk_pattern")) {
    words = layer_words(config, "index_topk_pattern", layers, {"full", "shared"});
  }
  std::vector<bool> shared;
  if (words) {
    for (const std::string& word : *words) shared.push_back(word == "shared");
  } else if (const auto letters =
                 config.has("index_topk_pattern") ? config.maybe_text("index_topk_pattern") : std::nullopt) {
    for (const char letter : *letters) shared.push_back(letter == 'S');
    if (std::ssize(shared) != layers || letters->find_first_not_of("FS") != std::string::npos) {
      config.fail("index_topk_pattern", "expected one letter per layer, F or S");
    }
  } else {
    const std::int64_t step = config.size_or({"index_topk_freq"}, 1, kMaxLayers);
    const std::int64_t offset = config.size_unless_null("index_skip_topk_offset", 2, kMaxLayers).value_or(0);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      shared.push_back(std::max<std::int64_t>(layer - offset + 1, 0) % step != 0);
    }
  }
  if (!shared.empty() && shared.front()) config.fail("indexer_types", "the first layer has nobody to share with");
  return shared;
}

// Multi-head latent attention, fine-grained experts beside shared ones. Prediction of further tokens
// (num_nextn_predict_layers) is a training device that transformers leaves out; a run adds it where it is asked to.
Architecture read_deepseek(Config& config, const DeepseekDefaults& defaults) {
  Decoder decoder = read_decoder(config, {.head_dim = 64, .positions = defaults.positions});
  Attention& attention = decoder.block.attention;
  if (config.flag_or("attention_bias", false)) {
    config.fail("attention_bias", "true is not supported for latent attention; allowed is false");
  }
  read_latent_attention(config, attention, defaults.latent);
  std::vector<bool> shares(at(decoder.layers), false);
  if (defaults.index_heads > 0) {
    attention.indexer = Indexer{config.size_or({"index_n_heads"}, defaults.index_heads, kMaxHeads),
                                config.size_or({"index_head_dim"}, 128, kMaxWidth / kMaxHeads),
                                config.size_or({"index_topk"}, 2048, kMaxPositions)};
    if (attention.latent->query_rank == 0) config.fail("q_lora_rank", "null leaves the indexer without its input");
    shares = layers_that_share_choices(config, decoder.layers);
  }

  if (config.mentions("n_routed_experts") && !config.has("n_routed_experts")) {
    return assemble(config, std::move(decoder));  // null: a dense model
  }
  FeedForward expert = *decoder.block.feed_forward;
  expert.width = config.size({"moe_intermediate_size"}, kMaxWidth);
  Mixture mixture = make_mixture(config, kExpertKeys, config.size(kExpertKeys, kMaxExperts), kTopKKeys,
                                 config.size_or(kTopKKeys, defaults.top_k, kMaxExperts), expert);
  // DeepSeek-V2's greedy choice states its groups and does not use them.
  if (config.maybe_text("topk_method").value_or("") != "greedy") read_groups(config, "n_group", "topk_group", mixture);
  read_shared_experts(config, "n_shared_experts", 1, mixture);
  const auto sparse = after_dense_layers(config, decoder.layers, defaults.dense);
  const Block block = decoder.block;
  return assemble(config, std::move(decoder), [&](std::int64_t layer) {
    Block own = sparse[at(layer)] ? with_mixture(block, mixture) : block;
    if (shares[at(layer)]) own.attention.indexer->shared = true;
    return own;
  });
}

Architecture read_deepseek_v2(Config& config) {
  return read_deepseek(config, {.positions = 2048, .dense = 0, .top_k = 6});
}

Architecture read_deepseek_v32(Config& config) {
  return read_deepseek(config, {.positions = 163840, .dense = 3, .index_heads = 64});
}

Architecture read_glm4_moe_lite(Config& config) { return read_deepseek(config, {.positions = 202752, .dense = 1}); }

// GLM-5: most layers take the keys that an earlier one chose.
Architecture read_glm_moe_dsa(Config& config) {
  return read_deepseek(
      config, {.positions = 202752,
               .dense = 3,
               .index_heads = 32,
               .latent = {.query_rank = 2048, .kv_rank = 512, .nope_dim = 192, .rope_dim = 64, .value_dim = 256}});
}

constexpr std::array kLatentFamilies = std::to_array<Family>({
    {"deepseek_v2", read_deepseek_v2},
    {"deepseek_v3", read_deepseek_v3},
    {"deepseek_v32", read_deepseek_v32},
    {"glm4_moe_lite", read_glm4_moe_lite},
    {"glm_moe_dsa", read_glm_moe_dsa},
    {"kimi_k2", read_deepseek_v3},  // the same keys and modules
});

}  // namespace

Architecture read_deepseek_v3(Config& config) { return read_deepseek(config, {.positions = 4096, .dense = 3}); }

std::span<const Family> latent_families() { return kLatentFamilies; }

}  // namespace nest::model::families
