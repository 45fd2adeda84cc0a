#include "model/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/build.h"
#include "model/count.h"
#include "model/presets.h"

namespace nest::model {
namespace {

Model built(const char* preset) { return build_model(find_model_preset(preset).value()); }

Model trained(const char* preset, const char* freeze, const char* lora) {
  Model model = built(preset);
  apply_training(read_training(freeze, lora), model);
  return model;
}

std::string refusal(const char* freeze, const char* lora, const char* preset = "llama3-8b") {
  try {
    trained(preset, freeze, lora);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(Training, NothingAskedChangesNothing) {
  const Model model = built("llama3-8b"), same = trained("llama3-8b", "", "");
  EXPECT_EQ(model.kinds, same.kinds);
  EXPECT_EQ(model.layers, same.layers);
  EXPECT_EQ(count_trained(model), count_parameters(model).total);
}

TEST(Training, PatternsNameWhereWeightsStand) {
  const std::int64_t all = count_parameters(built("llama3-8b")).total;
  const std::int64_t table = 128'256LL * 4096, up = 4096LL * 14'336, block = 218'112'000;
  EXPECT_EQ(count_trained(trained("llama3-8b", "embedding", "")), all - table);
  EXPECT_EQ(count_trained(trained("llama3-8b", "blocks.0-3", "")), all - 4 * block);
  EXPECT_EQ(count_trained(trained("llama3-8b", "blocks.7", "")), all - block);
  EXPECT_EQ(count_trained(trained("llama3-8b", "blocks.*.ffn.up", "")), all - 32 * up);
  EXPECT_EQ(count_trained(trained("llama3-8b", "blocks.1?.ffn.up,embedding", "")), all - 10 * up - table);
  EXPECT_EQ(count_trained(trained("llama3-8b", "blocks", "")), all - 32 * block);
}

TEST(Training, ATableThatIsSharedIsFrozenEverywhere) {
  const Model model = trained("llama3.2-1b", "embedding", "");
  EXPECT_TRUE(shares_frozen(model));
  EXPECT_EQ(count_trained(model), count_parameters(model).total - 128'256LL * 2048);
}

// Below the first trained layer no layer reads a gradient; a prefix tower hands none on.
TEST(Training, LayersKnowWhetherTheirInputsGetGradients) {
  const Model model = trained("llama3-8b", "embedding,blocks.0-4", "");
  for (std::size_t p = 0; p < model.layers.size(); ++p) {
    const Layer& layer = model.kinds[static_cast<std::size_t>(model.layers[p])];
    EXPECT_EQ(layer.input_gradient, p > 6) << p;
  }
}

// rank * (inputs + outputs) of every product that is named, 32 blocks of Llama 3 8B.
TEST(Training, AdaptersHaveTheParametersOfTheirRanks) {
  const std::int64_t h = 4096, k = 1024, f = 14'336;
  const auto adapters = [](const char* lora) { return count_trained(trained("llama3-8b", "", lora)); };
  EXPECT_EQ(adapters("rank=16"), 32 * 16 * (2 * h + h + k));
  EXPECT_EQ(adapters("rank=8,targets=q_proj,v_proj"), 32 * 8 * (2 * h + h + k));
  EXPECT_EQ(adapters("rank=16,targets=all"), 32 * 16 * (4 * h + 2 * (h + k) + 3 * (h + f)));
  EXPECT_EQ(adapters("targets=all-linear"), adapters("rank=16,targets=q,k,v,o,gate,up,down"));
  // One adapter of all outputs of the fused product.
  EXPECT_EQ(adapters("rank=16,targets=linear_qkv"), 32 * 16 * (h + h + 2 * k));
  const Model model = trained("llama3-8b", "", "rank=16");
  EXPECT_EQ(count_parameters(model).total, count_parameters(built("llama3-8b")).total + count_trained(model));
  EXPECT_EQ(trained("llama3-8b", "", "rank=16,base=nf4").frozen_matrix_bytes, kNf4Bytes);
  EXPECT_NEAR(kNf4Bytes * 8, 4.127, 5e-4);  // bits, as QLoRA states
}

TEST(Training, AdaptersOfExpertsAreOnDemand) {
  const std::int64_t h = 4096, f = 14'336;
  EXPECT_EQ(count_trained(trained("mixtral-8x7b", "", "rank=4,targets=experts")), 32 * 8 * 4 * 3 * (h + f));
  EXPECT_THAT(refusal("", "targets=up", "mixtral-8x7b"), testing::HasSubstr("has no `up` to adapt"));
}

TEST(Training, WhatCannotBeIsRefused) {
  EXPECT_THAT(refusal("tower", ""), testing::HasSubstr("freeze: `tower` matches nothing in llama3-8b; names begin with "
                                                       "blocks, embedding and head"));
  EXPECT_THAT(refusal("blocks.40", ""), testing::HasSubstr("`blocks.40` matches nothing"));
  EXPECT_THAT(refusal("embedding,,head", ""), testing::HasSubstr("an empty pattern"));
  EXPECT_THAT(refusal("embedding,blocks,head", ""), testing::HasSubstr("nothing of llama3-8b is left to train"));
  EXPECT_THAT(refusal("", "rank=0"), testing::HasSubstr("lora: rank `0`; expected rank=R (1 … 65536)"));
  EXPECT_THAT(refusal("", "rank=many"), testing::HasSubstr("rank `many`"));
  EXPECT_THAT(refusal("", "targets=nose"), testing::HasSubstr("target `nose`"));
  EXPECT_THAT(refusal("", "base=int3"), testing::HasSubstr("base `int3`"));
  EXPECT_THAT(refusal("", "16"), testing::HasSubstr("found `16`"));
  EXPECT_THAT(refusal("", "alpha=16"), testing::HasSubstr("found `alpha=16`"));
}

}  // namespace
}  // namespace nest::model
