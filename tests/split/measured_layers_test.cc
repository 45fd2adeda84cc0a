// Bytes that autograd really kept for whole blocks on one GPU, against the tensors that the graph says are kept.
// tests/accuracy does the same with the rows that are kept outside the repository.
#include <gtest/gtest.h>

#include "model/build.h"
#include "model/config.h"
#include "split/local_layer.h"

namespace nest::split {
namespace {

// Bytes per token that one layer of transformers 5.17 kept on an H200 (PyTorch 2.11, bf16, sdpa, batch 8 x 1024 tokens,
// dropout and cache as the class defaults, difference of two depths), measured by this project for small models of one shape.
struct FamilyRow {
  const char* family;
  const char* extra;  // keys beside the common ones
  double bytes_per_token;
};

void PrintTo(const FamilyRow& row, std::ostream* out) { *out << row.family; }

class HuggingFaceFamilies : public ::testing::TestWithParam<FamilyRow> {};

TEST_P(HuggingFaceFamilies, KeepWhatWasMeasured) {
  const FamilyRow& row = GetParam();
  const std::string config =
      std::string(R"({"model_type": ")") + row.family +
      R"(", "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 2, "vocab_size": 4096,
      "max_position_embeddings": 2048)" +
      row.extra + "}";
  const model::Architecture arch = model::read_config(doc::parse_json("config.json", config), row.family);
  const RunShape shape{.micro_batch = 8, .sequence = 1024};
  const model::Implementation hf{.stack = model::Stack::huggingface, .dropout = true, .sequence = 1024, .cache = true};
  const model::Model model = model::build_model(arch, hf);
  const LocalLayer layer = localise(model.kinds[static_cast<std::size_t>(model.layers[1])], shape, {}, hf);
  EXPECT_NEAR(layer.saved.none / (8 * 1024) / row.bytes_per_token, 1.0, 0.002)
      << layer.saved.none / (8 * 1024) << " predicted, " << row.bytes_per_token << " measured";
}

constexpr const char* kGrouped = R"(, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 3072)";

INSTANTIATE_TEST_SUITE_P(
    Measured, HuggingFaceFamilies,
    ::testing::Values(
        FamilyRow{"llama", kGrouped, 46152}, FamilyRow{"qwen3", kGrouped, 53912}, FamilyRow{"gemma", kGrouped, 50248},
        FamilyRow{"gemma2", kGrouped, 66640}, FamilyRow{"gemma3_text", kGrouped, 76960},
        FamilyRow{"phi", kGrouped, 42056},
        FamilyRow{"starcoder2", R"(, "num_key_value_heads": 4, "intermediate_size": 3072, "residual_dropout": 0)",
                  25680},
        FamilyRow{"olmo2", kGrouped, 60496},
        FamilyRow{"falcon", R"(, "new_decoder_architecture": true, "num_kv_heads": 4, "ffn_hidden_size": 3072)", 28752},
        FamilyRow{"opt", R"(, "ffn_dim": 3072, "word_embed_proj_dim": 1024)", 24656},
        FamilyRow{"bert", R"(, "intermediate_size": 3072)", 30800}),
    [](const auto& row) { return std::string(row.param.family); });

double kept_a_token(const std::string& family, const std::string& extra, bool cache) {
  const std::string config = R"({"model_type": ")" + family + R"(", "hidden_size": 1024, "n_embd": 1024, "n_head": 16,
      "num_attention_heads": 16, "num_hidden_layers": 2, "n_layer": 2, "vocab_size": 4096, "intermediate_size": 3072)" +
                             extra + "}";
  const model::Architecture arch = model::read_config(doc::parse_json("config.json", config), family);
  const model::Implementation hf{.stack = model::Stack::huggingface, .sequence = 1024, .cache = cache};
  const model::Model model = model::build_model(arch, hf);
  const RunShape shape{.micro_batch = 8, .sequence = 1024};
  return localise(model.kinds[static_cast<std::size_t>(model.layers[1])], shape, {}, hf).saved.none / (8 * 1024);
}

// Queries, keys and values that are views of one product's result. The cache copies keys and values: where queries and
// keys were rotated, nothing is left of the product then; where they were not, queries hold all of it beside the copies.
TEST(HuggingFaceModules, ViewsOfOneProductKeepAllOfIt) {
  EXPECT_DOUBLE_EQ(kept_a_token("gpt2", "", true) - kept_a_token("gpt2", "", false), 2 * 2 * 1024);
  for (const char* family : {"gpt_neox", "phi3"}) {
    EXPECT_DOUBLE_EQ(kept_a_token(family, "", false) - kept_a_token(family, "", true), 2 * 2 * 1024) << family;
  }
  EXPECT_DOUBLE_EQ(kept_a_token("llama", "", false), kept_a_token("llama", "", true));
}

// Cohere's LayerNorm: the input less its mean, that once more, and the normalised value in fp32, mean and root; then
// what the products read, rotated queries and keys, values, the result and its sums, and four of the feed-forward.
TEST(HuggingFaceModules, LayerNormInPythonKeepsThreeCopies) {
  const double norm = 3 * 4 * 1024 + 8, attention = 5 * 2 * 1024 + 4 * 16, feed_forward = 4 * 2 * 3072;
  const double random_state = 1024.0 / (8 * 1024);
  EXPECT_DOUBLE_EQ(kept_a_token("cohere", R"(, "num_key_value_heads": 16)", false),
                   norm + attention + feed_forward + random_state);
}

}  // namespace
}  // namespace nest::split
