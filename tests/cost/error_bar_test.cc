#include "cost/error_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cost_support.h"
#include "nest/interval.h"

namespace nest::cost {
namespace {

using ::testing::HasSubstr;

Prediction step_of(double seconds, double tp_s, double bubble_s) {
  Prediction prediction;
  prediction.iteration_s = seconds;
  prediction.breakdown_s.tp = tp_s;
  prediction.breakdown_s.bubble = bubble_s;
  prediction.breakdown_s.compute = seconds - tp_s - bubble_s;
  return prediction;
}

TEST(ErrorBar, SpreadIsTheRootOfTheSquares) {
  // A tenth exposed, a quarter bubble, four times 512 devices, experts.
  const ErrorShares shares = error_shares(step_of(10, 1, 2.5), {2048, true, false, false});
  const double by_hand = std::sqrt(0.036 * 0.036 + 0.02 * 0.02 + 0.02 * 0.02 + 0.02 * 0.02 + 0.08 * 0.08);
  EXPECT_NEAR(spread_of(shares), by_hand, 1e-12);
  EXPECT_EQ(spread_of(error_shares(step_of(10, 0, 0), {})), 0.036);
}

TEST(ErrorBar, AnEvaluatedPlanHasTheSpreadOfItsParts) {
  const Job job = test_job({.model = "mixtral-8x7b", .devices = 64, .batch = 256, .sequence = 4096});
  const Plan plan = evaluate_even(job, {.tp = 2, .ep = 8, .pp = 2, .dp = 16, .sp = true}, Recompute::full);
  EXPECT_EQ(plan.prediction.spread, spread_of(error_shares(plan.prediction, {64, true, false, false})));
  EXPECT_GT(plan.prediction.spread, 0.08);
  EXPECT_EQ(plan.unsure, "");
}

TEST(ErrorBar, WhatWasNeverCalibratedIsSaid) {
  const Job stated = test_job({.stack = "hf-fsdp"});
  EXPECT_THAT(not_calibrated(stated), HasSubstr("hf-fsdp"));
  Job job = test_job({});
  EXPECT_EQ(not_calibrated(job), "");
  const double before = evaluate_even(job, {.dp = 8}).prediction.spread;
  job.cluster.device.efficiency.clear();
  const Plan plan = evaluate_even(job, {.dp = 8});
  EXPECT_THAT(plan.unsure, HasSubstr("h100 was never calibrated"));
  EXPECT_GT(plan.prediction.spread, 3 * before);
}

TEST(ErrorBar, WhatTwoPlansShareCancels) {
  const Prediction a = step_of(10, 0, 0), b = step_of(10.36, 0, 0);
  // log(1.036) / 0.035 = 1.0105 spreads.
  EXPECT_NEAR(probability_faster(a, b), student4_probability(std::log(1.036) / 0.035), 1e-12);
  EXPECT_NEAR(probability_faster(a, b) + probability_faster(b, a), 1, 1e-12);
  EXPECT_DOUBLE_EQ(probability_faster(a, a), 0.5);
  // Of the same excess, less sure where the plans are made of other parts.
  EXPECT_LT(probability_faster(a, step_of(10.36, 3, 0)), probability_faster(a, b));
  EXPECT_NEAR(probability_faster(a, b, 1), 0.5, 1e-12);
}

// 10 s against 11 s: log 1.1 = 0.0953.
TEST(ErrorBar, WhatTwoCandidatesDoNotShareAddsUp) {
  const ErrorShares a = error_shares(step_of(10, 1, 2.5), {512, false, false, false});  // a tenth tp, a quarter bubble
  const ErrorShares b =
      error_shares(step_of(11, 2.2, 1.1), {1024, false, false, true});  // a fifth, a tenth; scale, device
  const auto sure = [](double variance) { return student4_probability(std::log(1.1) / std::sqrt(variance)); };
  const double own = 0.035 * 0.035;
  const double scale = 0.01 * 0.01, unmeasured = 0.15 * 0.15;
  const double apart = 0.2 * 0.2 * 0.1 * 0.1 + 0.08 * 0.08 * 0.15 * 0.15;
  const double both = 0.2 * 0.2 * (0.1 * 0.1 + 0.2 * 0.2) + 0.08 * 0.08 * (0.25 * 0.25 + 0.1 * 0.1);
  EXPECT_NEAR(probability_faster(a, b, 1.1, {true, true}), sure(own + apart + scale + unmeasured), 1e-12);
  EXPECT_NEAR(probability_faster(a, b, 1.1, {true, false}), sure(own + both + scale + unmeasured), 1e-12);
  EXPECT_NEAR(probability_faster(a, b, 1.1, {false, false}), sure(own + both + scale + unmeasured + 2 * 0.036 * 0.036),
              1e-12);
  // Other devices have another network, whatever it is called.
  EXPECT_EQ(probability_faster(a, b, 1.1, {false, true}), probability_faster(a, b, 1.1, {false, false}));
  EXPECT_NEAR(probability_faster(a, b, 1.1, {false, false}) + probability_faster(b, a, 1 / 1.1, {false, false}), 1,
              1e-12);
}

TEST(ErrorBar, StagesSayHowLikelyTheyRunOutOfMemory) {
  Job job = test_job({});
  const Plan plan = evaluate_even(job, {.dp = 8});
  const StageMemory& memory = plan.stages[0].memory;
  const double context = static_cast<double>(context_bytes(job, plan.strategy));
  const double without_margin = (static_cast<double>(memory.needed) - context) / 1.05;
  const double room = static_cast<double>(job.cluster.device.memory_bytes) - context;
  EXPECT_NEAR(memory.out_of_memory, probability_out_of_memory(without_margin, room, 0.015), 1e-9);
  job.cluster.device.memory_bytes = memory.needed;  // it just fits
  const double risk = evaluate_even(job, {.dp = 8}).stages[0].memory.out_of_memory;
  EXPECT_NEAR(risk, 1 - student4_probability(std::log(1.05) / 0.015), 1e-6);
}

TEST(ErrorBar, ARiskIsAMargin) {
  nest::Run run;
  run.global_batch = 128;
  run.sequence = 8192;
  const auto job_with = [&](const char* risk) {
    run.oom_risk = risk;
    return make_job(model::find_model_preset("llama3-8b").value(), run, find_stack("megatron-core").value(),
                    rail_cluster("h100", 8));
  };
  EXPECT_EQ(job_with("").stack.memory_margin, 0.05);
  EXPECT_NEAR(job_with("1%").stack.memory_margin, std::exp(3.7469 * 0.015) - 1, 1e-5);
  EXPECT_EQ(job_with("0.01").stack.memory_margin, job_with("1%").stack.memory_margin);
  for (const char* wrong : {"often", "0", "60%", "1%%", "-1%", "nan"}) {
    EXPECT_THROW(job_with(wrong), InputError) << wrong;
  }
}

}  // namespace
}  // namespace nest::cost
