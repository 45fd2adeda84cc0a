#include "cost/profile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cost/layer_price.h"
#include "cost_support.h"
#include "test_support/refusal.h"

namespace nest::cost {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A block of llama3-8b has 218,112,000 parameters.
std::string profile(const std::string& entries, const std::string& device = "h100") {
  return fmt::format(
      R"({{"schema": "nest.profile/1", "device": "{}", "stack": "megatron-core", "precision": "bf16", {}}})", device,
      entries);
}

std::string block(std::int64_t parameters) {
  return fmt::format(R"("layers": [{{"model": "llama3-8b", "layer": "block", "micro_batch": 1, "sequence": 8192,
    "parameters": {}, "forward_s": 0.004, "backward_s": 0.009, "saved_bytes": 1e9}}])",
                     parameters);
}

MeasuredProfile read(const std::string& text) { return read_profile(doc::parse_json("mine.json", text)); }

std::string refusal(const std::string& text) {
  return test::refusal_of([&] {
    Job job = test_job({});
    attach_profile(job, read(text));
  });
}

TEST(Profile, LayerEntryReplacesTheLayer) {
  Job job = test_job({});
  const double before = evaluate_even(job, {.dp = 8}).prediction.iteration_s;
  attach_profile(job, read(profile(block(218112000))));
  const int kind = job.model.layers[1];
  const LayerPrice price = price_layer(job, kind, {}, 1);
  EXPECT_TRUE(price.measured);
  EXPECT_EQ(price.forward_s, 0.004);
  EXPECT_EQ(price.backward_s, 0.009);
  EXPECT_EQ(price.recompute_s[2], 0.004);
  EXPECT_EQ(price.kept_bytes[0], 1e9);
  EXPECT_FALSE(price_layer(job, kind, {}, 2).measured);                   // another micro-batch
  EXPECT_FALSE(price_layer(job, kind, {2, false, 1, 1, 0}, 1).measured);  // another split
  const Plan after = evaluate_even(job, {.dp = 8});
  EXPECT_NE(after.prediction.iteration_s, before);
  EXPECT_THAT(after.measured, Contains("block"));
}

TEST(Profile, AMeasuredDeviceIsNamed) {
  Job job = test_job({});
  EXPECT_THAT(evaluate_even(job, {.dp = 8}).measured, IsEmpty());
  job.cluster.device.name = "mine";
  job.cluster.device.source = "a data sheet | calibrated: NVIDIA H200, torch 2.11.0, 2026-11-15";
  EXPECT_THAT(evaluate_even(job, {.dp = 8}).measured,
              ElementsAre("the rate of matrix products of mine (NVIDIA H200, torch 2.11.0, 2026-11-15)"));
}

TEST(Profile, OperatorEntryReplacesOneOperator) {
  Job job = test_job({});
  const int kind = job.model.layers[1];
  const LayerPrice before = price_layer(job, kind, {}, 1);
  const DeviceRates rates = sustained_rates(job.cluster.device, job.run.precision, job.stack);
  const double computed = gemm_s(rates, {8192, 4096, 14336, 1});
  attach_profile(job, read(profile(R"("operators": [{"operator": "matmul", "m": 8192, "n": 4096, "k": 14336,
    "forward_s": 0.5, "backward_s": 1.0}])")));
  const LayerPrice after = price_layer(job, kind, {}, 1);
  EXPECT_TRUE(after.measured);
  EXPECT_NEAR(after.forward_s, before.forward_s - computed + 0.5, 1e-9);
}

TEST(Profile, WhatWasMeasuredOnSomethingElseIsRefused) {
  EXPECT_EQ(refusal(profile(block(218112000))), "accepted");
  EXPECT_THAT(refusal(profile(block(218112000), "a100-80")), HasSubstr("measured on a100-80, but this run uses h100"));
  EXPECT_THAT(refusal(profile(block(7))), HasSubstr("with 7 parameters; here it has 218112000"));
  EXPECT_THAT(refusal(R"({"schema": "nest.profile/9", "device": "h100", "stack": "megatron-core"})"),
              HasSubstr("nest.profile/1"));
  EXPECT_THAT(refusal(profile(R"("layers": [])")), HasSubstr("nothing in it"));
  EXPECT_THAT(refusal(profile(R"("operators": [{"operator": "matmull"}])")), HasSubstr("did you mean `matmul`"));
  EXPECT_THAT(refusal(profile(R"("operators": [{"operator": "norm", "bytes": 1, "forward_s": -1, "backward_s": 1}])")),
              HasSubstr("forward_s"));
}

}  // namespace
}  // namespace nest::cost
