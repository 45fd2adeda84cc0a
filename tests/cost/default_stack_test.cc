// The stack that is assumed where nobody names one.
#include "cost/default_stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost/stack.h"
#include "model/presets.h"

namespace nest::cost {
namespace {

StackChoice choice(const char* model, const char* device, Precision precision) {
  return default_stack(model::find_model_preset(model).value(), cluster::find_device(device).value(), precision);
}

TEST(DefaultStack, FollowsModelDeviceAndPrecision) {
  const auto name = [](const char* model, const char* device, Precision precision) {
    return choice(model, device, precision).name;
  };
  EXPECT_EQ(name("llama3-8b", "h100", Precision::bf16), "megatron-bridge-2026");
  EXPECT_EQ(name("llama3-8b", "h200", Precision::fp8), "megatron-bridge-2026-fp8");
  EXPECT_EQ(name("llama3-8b", "gb200", Precision::fp8), "megatron-bridge-2026-mxfp8");
  EXPECT_EQ(name("llama3-8b", "gb300", Precision::fp4), "megatron-bridge-2026-nvfp4");
  EXPECT_EQ(name("mixtral-8x7b", "h100", Precision::bf16), "megatron-bridge-2026-moe");
  EXPECT_EQ(name("mixtral-8x7b", "h100", Precision::fp8), "megatron-bridge-2026-moe");
  EXPECT_EQ(name("qwen3-30b-a3b", "b200", Precision::fp8), "megatron-bridge-2026-moe-mxfp8");
  EXPECT_EQ(name("deepseek-v3", "h100", Precision::bf16), "megatron-bridge-2026-moe-mla");
  EXPECT_EQ(name("deepseek-v3", "gb200", Precision::fp8), "megatron-bridge-2026-moe-mla-mxfp8");
  EXPECT_EQ(name("deepseek-v3", "gb300", Precision::fp4), "megatron-bridge-2026-moe-mla-mxfp8");
  // Recipes of 2026 are for newer devices, and for training in bf16 or narrower.
  EXPECT_EQ(name("llama3-8b", "a100-80", Precision::bf16), "megatron-core");
  EXPECT_EQ(name("llama3-8b", "mi300x", Precision::bf16), "megatron-core");
  EXPECT_EQ(name("llama3-8b", "tpuv5p", Precision::bf16), "megatron-core");
  EXPECT_EQ(name("llama3-8b", "h100", Precision::fp32), "megatron-core");
}

TEST(DefaultStack, SaysWhy) {
  EXPECT_EQ(choice("llama3-8b", "h100", Precision::bf16).reason, "for a dense model in bf16 on hopper");
  EXPECT_EQ(choice("deepseek-v3", "gb200", Precision::fp8).reason,
            "for experts and latent attention in fp8 on blackwell");
  EXPECT_THAT(choice("llama3-8b", "a100-80", Precision::bf16).reason, ::testing::HasSubstr("not for a100-80"));
  EXPECT_THAT(choice("llama3-8b", "h100", Precision::tf32).reason, ::testing::HasSubstr("not for tf32"));
}

TEST(DefaultStack, IsAlwaysOneThatShips) {
  for (const char* model : {"llama3-8b", "mixtral-8x7b", "deepseek-v3", "bert-large", "t5-11b"}) {
    for (const cluster::Device& device : cluster::device_presets()) {
      for (const auto& word : kPrecisionWords) {
        const StackChoice chosen = choice(model, device.name.c_str(), word.value);
        EXPECT_TRUE(find_stack(chosen.name).has_value()) << chosen.name;
        EXPECT_FALSE(chosen.reason.empty());
      }
    }
  }
}

// Every key with the number of its recipe, through all that a preset is like.
TEST(DefaultStack, PresetsOf2026) {
  const SoftwareStack dense = find_stack("megatron-bridge-2026").value();
  EXPECT_EQ(dense.gradient_bytes, 2);
  EXPECT_EQ(dense.gradient_traffic_bytes, 2);
  EXPECT_EQ(dense.optimizer_bytes(), 12);
  EXPECT_EQ(dense.loss, LossKernel::fused);
  EXPECT_TRUE(dense.expandable_segments);
  EXPECT_FALSE(dense.defer_head_gradient);
  const SoftwareStack latent = find_stack("megatron-bridge-2026-moe-mla-mxfp8").value();
  EXPECT_TRUE(latent.expandable_segments);
  EXPECT_TRUE(latent.expert_overlap);
  EXPECT_EQ(latent.weight_bytes, 2.0625);
  EXPECT_EQ(latent.optimizer_bytes(), 8);
  EXPECT_EQ(latent.rank_capacity, 1.5);
  EXPECT_EQ(latent.paged_stash, 1.2);
  EXPECT_THAT(latent.selective_modules, ::testing::ElementsAre(model::Module::latent_up));
}

}  // namespace
}  // namespace nest::cost
