// Bytes that autograd really kept for whole blocks on one GPU, against the tensors that the graph says are kept.
#include <gtest/gtest.h>

#include <cmath>

#include "doc/reader.h"
#include "model/build.h"
#include "model/config.h"
#include "model/presets.h"
#include "split/local_layer.h"
#include "test_support/data.h"

namespace nest {
namespace {

struct Shape {
  std::int64_t hidden, heads, kv_heads, ffn;
  bool gated;
};

Architecture block_of(const Shape& shape) {
  Block block;
  block.attention.heads = shape.heads;
  block.attention.kv_heads = shape.kv_heads;
  block.attention.head_dim = shape.hidden / shape.heads;
  block.feed_forward = FeedForward{shape.ffn, shape.gated, shape.gated ? Activation::silu : Activation::gelu,
                                   !shape.gated, !shape.gated};
  if (!shape.gated) {
    block.norm = NormKind::layer;
    block.norm_bias = true;
    Attention& a = block.attention;
    a.query_bias = a.key_bias = a.value_bias = a.output_bias = true;
  }
  Architecture arch;
  arch.hidden = shape.hidden;
  arch.vocabulary = 1024;
  arch.position = PositionKind::none;
  Tower tower;
  tower.kinds = {block};
  tower.blocks = {0};
  arch.towers = {tower};
  return arch;
}

const std::map<std::string, Shape> kShapes = {
    {"llama2_7b", {4096, 32, 32, 11008, true}},  {"llama3_8b", {4096, 32, 8, 14336, true}},
    {"llama3_70b", {8192, 64, 8, 28672, true}},  {"gpt3_175b", {12288, 96, 96, 49152, false}},
    {"bert_large", {1024, 16, 16, 4096, false}},
};

TEST(MeasuredLayers, PlainBlocksKeepWhatWasMeasured) {
  NEST_REQUIRE_DATA("h200/layers.json");
  const Document document = test::read_json(test::data_dir() / "h200/layers.json");
  const Implementation plain{.stack = Stack::plain};
  int checked = 0;
  for (const Value& value : *document.root().as_array()) {
    Reader row(Document{document.source, value});
    if (row.text("kind") != "layer" || row.text("impl") != "plain" || !kShapes.contains(row.text("model"))) continue;
    const Model model = build_model(block_of(kShapes.at(row.text("model"))), plain);
    const RunShape shape{.micro_batch = row.integer("mbs", {1, 1e6}), .sequence = row.integer("seq", {1, 1e6})};
    const Split split{.tp = row.integer("tp", {1, 64})};
    const LocalLayer layer = localise(model.kinds[1], shape, split, plain);
    const double measured = row.number("saved_bytes", {0, 1e15});
    EXPECT_NEAR(layer.saved.none / measured, 1.0, 0.03)
        << row.text("model") << " tp " << split.tp << " mbs " << shape.micro_batch;
    EXPECT_EQ(layer.dense_parameters, row.integer("params", {0, 1e15})) << row.text("model") << " tp " << split.tp;
    ++checked;
  }
  EXPECT_GE(checked, 20);
}

// transformers' own modules keep more than plain PyTorch ones (fp32 copies in RMSNorm, repeated keys and a mask with a
// sliding window, transposed copies with partial rotary, dropout masks); the huggingface stack counts those tensors.
TEST(MeasuredLayers, HuggingFaceBlocksKeepWhatWasMeasured) {
  NEST_REQUIRE_DATA("h200/hf_layers.json");
  const Document document = test::read_json(test::data_dir() / "h200/hf_layers.json");
  int checked = 0;
  for (const Value& value : *document.root().as_array()) {
    Reader row(Document{document.source, value});
    const auto arch = find_model_preset(row.text("name"));
    if (!arch) continue;
    const RunShape shape{.micro_batch = row.integer("mbs", {1, 1e6}), .sequence = row.integer("seq", {1, 1e6})};
    const Implementation hf{.stack = Stack::huggingface, .dropout = true, .sequence = shape.sequence};
    const Model model = build_model(*arch, hf);
    const LocalLayer layer = localise(model.kinds[static_cast<std::size_t>(model.layers[1])], shape, {}, hf);
    const double measured = row.number("layer_saved", {0, 1e15});
    EXPECT_NEAR(layer.saved.none / measured, 1.0, 0.03)
        << row.text("name") << " seq " << shape.sequence << " predicted " << layer.saved.none << " measured "
        << measured;
    ++checked;
  }
  EXPECT_GE(checked, 3);
}

// Bytes per token that one layer of transformers 5.17 kept on an H200 (PyTorch 2.11, bf16, sdpa, batch 8 x 1024 tokens,
// dropout as the class defaults, difference of two depths), measured by this project for small models of one shape.
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
  const Architecture arch = read_config(parse_json("config.json", config), row.family);
  const RunShape shape{.micro_batch = 8, .sequence = 1024};
  const Implementation hf{.stack = Stack::huggingface, .dropout = true, .sequence = 1024};
  const Model model = build_model(arch, hf);
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

}  // namespace
}  // namespace nest
