#include "cost/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "test_support/refusal.h"

namespace nest::cost {
namespace {

using ::testing::HasSubstr;

SoftwareStack read(const std::string& text) { return read_stack(doc::parse_yaml("my.yaml", text), "my"); }

std::string refusal(const std::string& text) {
  return test::refusal_of([&] { read(text); });
}

TEST(Stack, DefaultComesFirstAndEveryPresetNamesItsSource) {
  ASSERT_FALSE(stack_presets().empty());
  EXPECT_EQ(stack_presets().front().name, "megatron-core");
  for (const SoftwareStack& stack : stack_presets()) {
    EXPECT_FALSE(stack.source.empty()) << stack.name;
    EXPECT_TRUE(find_stack(stack.name).has_value()) << stack.name;
  }
  EXPECT_FALSE(find_stack("no such stack").has_value());
}

TEST(Stack, LikeTakesTheRestFromAShippedOne) {
  const SoftwareStack stack =
      read("like: fsdp2\nattention: native\nhost_kernel: 5us\nselective_modules: [norm, moe]\n");
  EXPECT_EQ(stack.name, "my");
  EXPECT_EQ(stack.attention, AttentionKernel::native);
  EXPECT_DOUBLE_EQ(stack.host_kernel_s, 5e-6);
  EXPECT_EQ(stack.selective_modules, (std::vector{model::Module::norm, model::Module::moe}));
  EXPECT_EQ(stack.data_overlap, DataOverlap::fsdp);  // from fsdp2
  EXPECT_EQ(stack.default_zero, 3);
}

TEST(Stack, WhatIsWrittenIsReadBackAsTheSame) {
  std::vector<SoftwareStack> stacks(stack_presets().begin(), stack_presets().end());
  // One third, one thousandth: nothing is lost in the last digit.
  stacks.push_back(
      read("like: fsdp2\nname: fsdp2\nhost_kernel: 0.333333333333333333\nmemory_margin: 0.001\n"
           "kernels: huggingface\nselective: minimal\nselective_modules: []\nloss: eager_fp32\n"
           "memory: internevo\ndefault_zero: 2\nrouting_imbalance: 1.1\ndispatcher: hybridep\ndispatcher_sms: "
           "16\ngraph_scopes: [full]\noptimizer_bytes: 7.1\nupdate_bytes: 31\nexpandable_segments: "
           "true\nrank_capacity: 1.5\n"
           "paged_stash: 1.2\nstorage: nvfp4\n"));
  for (const SoftwareStack& stack : stacks) {
    const Document written = write_stack(stack);
    EXPECT_EQ(read_stack(written, "other"), stack) << stack.name;
    EXPECT_EQ(read_stack(doc::parse_json("plan.json", written.json()), "other"), stack) << stack.name;
    EXPECT_EQ(written.root().as_object()->find("like"), nullptr);
  }
}

TEST(Stack, GraphsWithoutScopesAreThoseOfWholeLayers) {
  using enum GraphScope;
  EXPECT_EQ(read("cuda_graphs: true").graph_scopes, (std::vector{attention, feed_forward, router, preprocess}));
  EXPECT_TRUE(read("like: megatron-core-moe\ncuda_graphs: false").graph_scopes.empty());
  EXPECT_EQ(read("like: megatron-core-moe").graph_scopes, (std::vector{attention, router, preprocess}));
  EXPECT_THAT(refusal("graph_scopes: [attention]"), HasSubstr("attn"));
}

TEST(Stack, BadKeysAndValuesAreNamed) {
  EXPECT_THAT(refusal("dispatcher: deep"), HasSubstr("deepep"));
  EXPECT_THAT(refusal("dispatcher_sms: -1"), HasSubstr("dispatcher_sms"));
  EXPECT_THAT(refusal("storage: fp8"), HasSubstr("fp8_tensor"));
  EXPECT_THAT(refusal("shared_expert_overlap: true\nselective_modules: [shared_experts]"), HasSubstr("shared_experts"));
  EXPECT_THAT(refusal("graph_scopes: [router]\nselective_modules: [moe]"), HasSubstr("router"));
  EXPECT_THAT(refusal("atention: native"), HasSubstr("attention"));
  EXPECT_THAT(refusal("attention: flash9"), HasSubstr("flash9"));
  EXPECT_THAT(refusal("like: fsdp3"), HasSubstr("fsdp2"));
  EXPECT_THAT(refusal("selective_modules: [attention]"), HasSubstr("core_attention"));
  EXPECT_THAT(refusal("host_kernel: 5h"), HasSubstr("host_kernel"));
  EXPECT_THAT(refusal("default_zero: 4"), HasSubstr("default_zero"));
  EXPECT_THAT(refusal("memory_margin: 2"), HasSubstr("memory_margin"));
  EXPECT_THAT(refusal("expandable_segments: 3"), HasSubstr("expandable_segments"));
  EXPECT_THAT(refusal("moments_bytes: -1"), HasSubstr("moments_bytes"));
  EXPECT_THAT(refusal("master_bytes: 65"), HasSubstr("master_bytes"));
  EXPECT_THAT(refusal("optimizer_bytes: 8\nmoments_bytes: 8"),
              HasSubstr("master_bytes and moments_bytes add up to 12"));
  EXPECT_THAT(refusal("rank_capacity: 0.5"), HasSubstr("allowed are 0 (none) and 1"));
  EXPECT_THAT(refusal("paged_stash: 1.2"), HasSubstr("needs rank_capacity"));
  EXPECT_THAT(refusal("paged_stash: 1.6\nrank_capacity: 1.5"), HasSubstr("more than the rank_capacity of 1.5"));
}

TEST(Stack, OptimizerBytesAreMasterAndMoments) {
  EXPECT_EQ(read("optimizer_bytes: 7").master_bytes, 4);
  EXPECT_EQ(read("optimizer_bytes: 7").moments_bytes, 3);
  EXPECT_EQ(read("optimizer_bytes: 8\nweight_bytes: 4").master_bytes, 0);  // the weights are their own
  EXPECT_EQ(read("like: fsdp2").moments_bytes, 8);
  EXPECT_EQ(read("optimizer_bytes: 8\nmoments_bytes: 4").master_bytes, 4);
  EXPECT_EQ(read("like: megatron-core\nmoments_bytes: 4").optimizer_bytes(), 8);
  EXPECT_EQ(read("like: megatron-core\nmoments_bytes: 4\nmaster_bytes: 2").optimizer_bytes(), 6);
}

}  // namespace
}  // namespace nest::cost
