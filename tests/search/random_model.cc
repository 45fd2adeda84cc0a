// Models of a few layers, as config files.
#include <nlohmann/json.hpp>

#include "problem.h"

namespace nest::test {
namespace {

using Json = nlohmann::ordered_json;

struct Sizes {
  std::int64_t layers, heads, kv_heads, head_dim, width, vocabulary;
  std::int64_t hidden() const { return heads * head_dim; }
};

Sizes random_sizes(Dice& dice, Leaning leaning) {
  Sizes sizes{};
  sizes.layers = dice.any<std::int64_t>({1, 2, 3, 3, 4, 5, 6, 7});
  sizes.head_dim = dice.any<std::int64_t>({64, 128, 128, 256});
  sizes.heads = dice.any<std::int64_t>({6, 8, 12, 16, 24, 32});
  sizes.kv_heads = dice.one_in(2) ? sizes.heads : sizes.heads / 2;
  if (leaning == Leaning::context) {
    sizes.layers = dice.any<std::int64_t>({1, 2, 3});
    sizes.kv_heads = sizes.heads = dice.any<std::int64_t>({1, 2, 3, 5});
    sizes.head_dim = dice.any<std::int64_t>({128, 256});
  }
  if (leaning == Leaning::interleaved) sizes.layers = dice.any<std::int64_t>({4, 5, 6, 7, 8, 10});
  if (leaning == Leaning::motif) sizes.layers = dice.any<std::int64_t>({6, 7, 8, 9, 10, 12});
  if (leaning == Leaning::long_chain) sizes.layers = dice.any<std::int64_t>({11, 13, 14, 16, 18});
  sizes.width = 64 * dice.any<std::int64_t>({12, 24, 30, 48, 96, 128, 200});
  sizes.vocabulary = dice.any<std::int64_t>({1000, 8192, 32000, 50257, 128256});
  if (leaning == Leaning::interleaved || leaning == Leaning::motif) {
    sizes.vocabulary = dice.any<std::int64_t>({1000, 8192});  // the head is no stage of its own
    sizes.width = 64 * dice.any<std::int64_t>({96, 128, 200});
  }
  return sizes;
}

Json decoder(const char* family, const Sizes& sizes) {
  return {{"model_type", family},
          {"hidden_size", sizes.hidden()},
          {"intermediate_size", sizes.width},
          {"num_hidden_layers", sizes.layers},
          {"num_attention_heads", sizes.heads},
          {"num_key_value_heads", sizes.kv_heads},
          {"head_dim", sizes.head_dim},
          {"vocab_size", sizes.vocabulary},
          {"max_position_embeddings", 131072}};
}

// "ABAB…" of some period, sometimes with a layer that breaks it.
std::vector<bool> random_pattern(Dice& dice, std::int64_t layers, bool regular) {
  const std::uint64_t period = dice.any<std::uint64_t>({2, 2, 2, 3});
  const std::uint64_t phase = dice.below(period);
  std::vector<bool> pattern;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool random = !regular && dice.one_in(2);
    pattern.push_back(random ? dice.one_in(2) : (static_cast<std::uint64_t>(i) + phase) % period == 0);
  }
  if (dice.one_in(4)) pattern[dice.below(pattern.size())] = true;
  return pattern;
}

Json sliding(Dice& dice, const Sizes& sizes, bool regular) {
  const char* family = dice.one_in(2) ? "qwen3" : "gemma2";
  Json config = decoder(family, sizes);
  config["use_sliding_window"] = true;
  config["sliding_window"] = dice.any<std::int64_t>({128, 256, 1024});
  if (std::string(family) == "qwen3") config["tie_word_embeddings"] = dice.one_in(2);
  Json types = Json::array();
  for (const bool full : random_pattern(dice, sizes.layers, regular)) {
    types.push_back(full ? "full_attention" : "sliding_attention");
  }
  config["layer_types"] = types;
  return config;
}

Json mixture(Dice& dice, const Sizes& sizes, bool regular) {
  const std::int64_t experts = dice.any<std::int64_t>({2, 3, 4, 4, 6, 8});
  const std::int64_t top_k = std::min(experts, dice.any<std::int64_t>({1, 2, 2, 4}));
  if (dice.one_in(3)) {
    Json config = decoder("mixtral", sizes);
    config["num_local_experts"] = experts;
    config["num_experts_per_tok"] = top_k;
    return config;
  }
  if (dice.one_in(4)) {
    Json config = decoder("deepseek_v2", sizes);
    config.erase("head_dim");
    config["moe_intermediate_size"] = sizes.width / 2;
    config["n_routed_experts"] = experts;
    config["num_experts_per_tok"] = top_k;
    config["n_shared_experts"] = 1;
    config["first_k_dense_replace"] = dice.below(2);
    config["q_lora_rank"] = nullptr;
    config["kv_lora_rank"] = 256;
    return config;
  }
  Json config = decoder("qwen3_moe", sizes);
  config["moe_intermediate_size"] = sizes.width;
  config["num_experts"] = experts;
  config["num_experts_per_tok"] = top_k;
  if (regular || dice.one_in(2)) {
    Json dense = Json::array();
    const std::vector<bool> pattern = random_pattern(dice, sizes.layers, regular);
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i]) dense.push_back(i);
    }
    config["mlp_only_layers"] = dense;
  }
  return config;
}

Json encoder_decoder(Dice& dice, const Sizes& sizes) {
  return {{"model_type", "t5"},
          {"d_model", sizes.hidden()},
          {"d_kv", sizes.head_dim},
          {"d_ff", sizes.width},
          {"num_layers", dice.any<std::int64_t>({1, 2, 2, 3, 4})},
          {"num_decoder_layers", dice.any<std::int64_t>({1, 2, 3, 4})},
          {"num_heads", sizes.heads},
          {"n_positions", 131072},
          {"vocab_size", sizes.vocabulary},
          {"tie_word_embeddings", dice.one_in(2)}};
}

Json shared_table(Dice& dice, const Sizes& sizes) {
  if (dice.one_in(3)) {
    Json config = decoder(dice.one_in(2) ? "bert" : "roberta", sizes);
    for (const char* key : {"head_dim", "num_key_value_heads"}) config.erase(key);
    config["tie_word_embeddings"] = !dice.one_in(4);
    return config;
  }
  if (dice.one_in(2)) {
    return {{"model_type", "gpt2"},  {"n_embd", sizes.hidden()}, {"n_layer", sizes.layers},
            {"n_head", sizes.heads}, {"n_positions", 32768},     {"vocab_size", sizes.vocabulary},
            {"resid_pdrop", 0.1},    {"attn_pdrop", 0.1},        {"n_inner", sizes.width}};
  }
  Json config = decoder(dice.one_in(2) ? "gemma" : "starcoder2", sizes);
  if (std::string(config["model_type"]) == "starcoder2") config.erase("head_dim");
  return config;
}

}  // namespace

std::string random_config(Dice& dice, Leaning leaning) {
  const Sizes sizes = random_sizes(dice, leaning);
  const auto any_kind = [&]() -> Json {
    switch (dice.below(6)) {
      case 0: return mixture(dice, sizes, false);
      case 1: return sliding(dice, sizes, false);
      case 2: return shared_table(dice, sizes);
      case 3: return encoder_decoder(dice, sizes);
      default: break;
    }
    Json config = decoder("llama", sizes);
    config["tie_word_embeddings"] = dice.one_in(4);
    return config;
  };
  switch (leaning) {
    case Leaning::experts: return mixture(dice, sizes, false).dump(1);
    case Leaning::motif: return (dice.one_in(3) ? mixture(dice, sizes, true) : sliding(dice, sizes, true)).dump(1);
    case Leaning::crossing: return encoder_decoder(dice, sizes).dump(1);
    case Leaning::long_chain:
      return (dice.one_in(2) ? mixture(dice, sizes, false) : sliding(dice, sizes, false)).dump(1);
    case Leaning::tied: return shared_table(dice, sizes).dump(1);
    case Leaning::plain:
    case Leaning::context:
    case Leaning::interleaved: return decoder("llama", sizes).dump(1);
    default: return any_kind().dump(1);
  }
}

std::string shortened(const std::string& config, std::int64_t layers) {
  Json json = Json::parse(config);
  for (const char* key : {"num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers"}) {
    if (json.contains(key)) json[key] = std::min(json[key].get<std::int64_t>(), layers);
  }
  if (json.contains("layer_types")) {
    Json types = Json::array();
    for (const Json& type : json["layer_types"]) {
      if (std::ssize(types) < layers) types.push_back(type);
    }
    json["layer_types"] = types;
  }
  if (json.contains("mlp_only_layers")) {
    Json dense = Json::array();
    for (const Json& layer : json["mlp_only_layers"]) {
      if (layer.get<std::int64_t>() < layers) dense.push_back(layer);
    }
    json["mlp_only_layers"] = dense;
  }
  return json.dump(1);
}

}  // namespace nest::test
