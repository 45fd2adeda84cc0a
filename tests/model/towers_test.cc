// Vision towers that decoders attend to or that merge patches, their weights counted by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "config_support.h"
#include "test_support/refusal.h"

namespace nest::model {
namespace {

using test::architecture_of;
using test::ConfigKeys;
using test::parameters_of;
using test::with;
using test::without;

std::string as_object(const ConfigKeys& keys) {
  std::string inner;
  for (const auto& [key, value] : keys) inner += (inner.empty() ? "\"" : ", \"") + key + "\": " + value;
  return "{" + inner + "}";
}

// Llama 3.2 11B Vision.
const ConfigKeys kMllamaText = {{"hidden_size", "4096"},
                                {"intermediate_size", "14336"},
                                {"num_hidden_layers", "40"},
                                {"num_attention_heads", "32"},
                                {"num_key_value_heads", "8"},
                                {"vocab_size", "128256"},
                                {"cross_attention_layers", "[3, 8, 13, 18, 23, 28, 33, 38]"}};
const ConfigKeys kMllamaVision = {
    {"hidden_size", "1280"},
    {"intermediate_size", "5120"},
    {"num_hidden_layers", "32"},
    {"num_global_layers", "8"},
    {"attention_heads", "16"},
    {"image_size", "560"},
    {"patch_size", "14"},
    {"max_num_tiles", "4"},
    {"vision_output_dim", "7680"},
    {"intermediate_layers_indices", "[3, 7, 15, 23, 30]"},
    {"supported_aspect_ratios", "[[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]"}};

ConfigKeys mllama(const ConfigKeys& text, const ConfigKeys& vision) {
  return {{"model_type", "\"mllama\""}, {"text_config", as_object(text)}, {"vision_config", as_object(vision)}};
}

TEST(Towers, MllamaHasThePublishedNumberOfParameters) {
  const std::int64_t h = 4096, e = 1280;
  const std::int64_t attending = 2 * h * h + 2 * h * 1024 + 3 * h * 14336 + 2 * h;
  // Norms of queries and keys, and two gates.
  const std::int64_t crossing = attending + 2 * 128 + 2;
  const std::int64_t text = (128256 + 8) * h + 32 * attending + 8 * crossing + h + 128256 * h;
  // 40² patches and a class token, four tiles, eight ratios and padding.
  const std::int64_t stem = 3 * 14 * 14 * e + e + (1601 * e + 1) + 9 * 4 * 1601 * e + 2 * (9 * 4 * e + 1) + 2 * e;
  const std::int64_t block = 4 * e * e + 2 * e * 5120 + 5120 + e + 4 * e;
  const std::int64_t vision = stem + 40 * block + 8 * 2 + 2 * e;
  const std::int64_t projector = 7680 * h + h;
  EXPECT_EQ(text + vision + projector, 10670220835);
  EXPECT_EQ(parameters_of(mllama(kMllamaText, kMllamaVision)), 10670220835);
}

TEST(Towers, BlocksOfMllamaAttendToTheTilesOrToTheTokens) {
  const Model model = build_model(architecture_of(mllama(kMllamaText, kMllamaVision)));
  int crossing = 0;
  for (const int kind : model.layers) {
    const Layer& layer = model.kinds[static_cast<std::size_t>(kind)];
    std::vector<const Operator*> cores;
    for (const Operator& op : layer.operators) {
      if (op.kind == OperatorKind::attention) cores.push_back(&op);
    }
    ASSERT_LE(cores.size(), 1u) << layer.name;
    if (layer.memory < 0) continue;
    ++crossing;
    ASSERT_EQ(cores.size(), 1u);
    EXPECT_FALSE(cores.front()->attention.causal);
    // Four tiles of 1,601 rows, after padding was taken away.
    EXPECT_EQ(cores.front()->attention.keys, (Length{4.0 * 1601, false}));
    const Tensor& keys = layer.tensors[static_cast<std::size_t>(cores.front()->inputs[1])];
    EXPECT_EQ(keys.rows, Rows::samples);
    EXPECT_EQ(keys.rows_per_unit, 4.0 * 1601);
    EXPECT_EQ(layer.name, "decoder cross attention block");
  }
  EXPECT_EQ(crossing, 8);
  // The tower attends over all tiles at once, padded to eights.
  const auto block = std::find_if(model.kinds.begin(), model.kinds.end(),
                                  [](const Layer& layer) { return layer.name == "vision block"; });
  ASSERT_NE(block, model.kinds.end());
  EXPECT_EQ(block->tensors[static_cast<std::size_t>(block->input)].rows_per_unit, 4.0 * 1608);
  // The projection keeps the six outputs that stand side by side.
  const auto projector = std::find_if(model.kinds.begin(), model.kinds.end(),
                                      [](const Layer& layer) { return layer.name == "vision projector"; });
  ASSERT_NE(projector, model.kinds.end());
  const Operator& last = projector->operators.back();
  ASSERT_EQ(last.saves.size(), 1u);
  EXPECT_EQ(row_elements(projector->tensors[static_cast<std::size_t>(last.saves.front())]), 7680);
}

TEST(Towers, MllamaRefusesWidthsThatDoNotFit) {
  const auto refusal = [](const ConfigKeys& vision) {
    return test::refusal_of([&] { architecture_of(mllama(kMllamaText, vision)); });
  };
  EXPECT_THAT(refusal(with(kMllamaVision, {{"vision_output_dim", "7681"}})),
              testing::AllOf(testing::HasSubstr("vision_config.vision_output_dim"), testing::HasSubstr("7681"),
                             testing::HasSubstr("7680 wide")));
  EXPECT_THAT(refusal(with(kMllamaVision, {{"supported_aspect_ratios", "8"}})), testing::HasSubstr("expected a list"));
  EXPECT_THAT(refusal(with(kMllamaVision, {{"image_size", "16384"}, {"patch_size", "1"}})),
              testing::HasSubstr("supported_aspect_ratios"));
  EXPECT_THAT(refusal(with(kMllamaVision, {{"intermediate_layers_indices", "[3, 32]"}})),
              testing::HasSubstr("intermediate_layers_indices"));
}

// Blocks as SigLIP's, a table of positions, and a merger of four patches.
TEST(Towers, Qwen35HasItsTowerWhereItsClassHasOne) {
  ConfigKeys text = without(test::tiny("qwen3_5_text"), "model_type");
  text = with(text, {{"head_dim", "8"}, {"full_attention_interval", "1"}});
  const std::int64_t alone = parameters_of(with(text, {{"model_type", "\"qwen3_5_text\""}}));
  const ConfigKeys keys = {{"model_type", "\"qwen3_5\""},
                           {"architectures", "[\"Qwen3_5ForConditionalGeneration\"]"},
                           {"text_config", as_object(text)},
                           {"vision_config",
                            R"({"model_type": "qwen3_5", "depth": 3, "hidden_size": 16, "intermediate_size": 40,
                                "num_heads": 4, "in_channels": 3, "patch_size": 8, "temporal_patch_size": 2,
                                "spatial_merge_size": 2, "num_position_embeddings": 36, "out_hidden_size": 24})"}};
  const std::int64_t stem = 16 * 3 * 2 * 64 + 16 + 36 * 16;
  const std::int64_t block = 4 * 16 * 16 + 4 * 16 + 2 * 16 * 40 + 40 + 16 + 4 * 16;
  const std::int64_t merger = 2 * 16 + 64 * 64 + 64 + 64 * 24 + 24;
  EXPECT_EQ(parameters_of(keys), alone + stem + 3 * block + merger);
  EXPECT_THAT(architecture_of(keys).notes, testing::IsEmpty());

  // The class of causal language models, or none: the text alone, said aloud.
  for (const char* named : {"[\"Qwen3_5ForCausalLM\"]", "null"}) {
    const ConfigKeys other = with(keys, {{"architectures", named}});
    EXPECT_EQ(parameters_of(other), alone);
    EXPECT_THAT(architecture_of(other).notes, testing::ElementsAre(testing::HasSubstr("text only")));
  }
  EXPECT_THAT(architecture_of(without(keys, "vision_config")).notes,
              testing::ElementsAre(testing::HasSubstr("describes no vision tower")));
}

TEST(Towers, Qwen35WithExpertsHasTheSameTower) {
  const ConfigKeys text = with(without(test::tiny("qwen3_5_moe_text"), "model_type"),
                               {{"head_dim", "8"}, {"num_experts", "4"}, {"num_experts_per_tok", "2"}});
  const std::int64_t alone = parameters_of(with(text, {{"model_type", "\"qwen3_5_moe_text\""}}));
  const ConfigKeys keys = {{"model_type", "\"qwen3_5_moe\""},
                           {"architectures", "[\"Qwen3_5MoeForConditionalGeneration\"]"},
                           {"text_config", as_object(text)},
                           {"vision_config",
                            R"({"depth": 1, "hidden_size": 16, "intermediate_size": 40, "num_heads": 4,
                                "patch_size": 8, "temporal_patch_size": 2, "num_position_embeddings": 36,
                                "out_hidden_size": 24})"}};
  const std::int64_t stem = 16 * 3 * 2 * 64 + 16 + 36 * 16;
  const std::int64_t block = 4 * 16 * 16 + 4 * 16 + 2 * 16 * 40 + 40 + 16 + 4 * 16;
  const std::int64_t merger = 2 * 16 + 64 * 64 + 64 + 64 * 24 + 24;
  EXPECT_EQ(parameters_of(keys), alone + stem + block + merger);
}

}  // namespace
}  // namespace nest::model
