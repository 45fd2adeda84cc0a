// Optimizer state on the host: the formula by hand, what it saves, and what was measured.
#include "cost/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/index.h"
#include "cost/tables.h"
#include "cost_support.h"

namespace nest::cost {
namespace {

using ::testing::HasSubstr;

Job offloaded(const std::string& model, std::int64_t percent, const std::string& stack = "megatron-bridge-2026",
              const std::string& device = "h100", Optimizer optimizer = Optimizer::adam) {
  Run run;
  run.global_batch = 64;
  run.sequence = 4096;
  run.optimizer = optimizer;
  run.optimizer_offload = percent;
  return make_job(model::find_model_preset(model).value(), run, find_stack(stack).value(), rail_cluster(device, 16));
}

TEST(Offload, LinkAndHost) {
  Job job = offloaded("llama3-8b", 100);  // gradients of 2 bytes
  EXPECT_DOUBLE_EQ(job.cluster.device.host_link_bytes_per_s, 55e9);
  EXPECT_DOUBLE_EQ(job.cluster.device.host_memory_bytes_per_s, 400e9 / 8);
  job.stack.offload_overlap = false;
  EXPECT_NEAR(offload_rule(job).seconds(1e9, 1000), 0.073 + 0.64, 0.0005);
  job.stack.offload_overlap = true;
  EXPECT_NEAR(offload_rule(job).seconds(1e9, 1000), 0.64, 0.0005);
  EXPECT_NEAR(offload_rule(job).seconds(1e9, 1), 0.64 + 0.073, 0.0005);  // one tensor overlaps with nothing
  job.run.optimizer_offload = 25;
  job.stack.offload_overlap = false;
  EXPECT_NEAR(offload_rule(job).seconds(1e9, 1000), (0.073 + 0.64) / 4, 0.0005);
  EXPECT_DOUBLE_EQ(pinned_bytes(job, 1e9), 4e9);  // 16 of a quarter
  EXPECT_EQ(offload_rule(offloaded("llama3-8b", 0)).seconds(1e9, 1), 0);
}

// The device updates what is left meanwhile: the longer of both counts, and the gradients' norm before.
TEST(Offload, IsPartOfTheStep) {
  const auto optimizer_s = [](std::int64_t percent) {
    return evaluate_even(offloaded("llama3-8b", percent), {.dp = 16}).prediction.breakdown_s.optimizer;
  };
  const Job job = offloaded("llama3-8b", 100);
  const double updated = real(job.parameters) / 16;
  const double norm_s = 6 * real(job.parameters) / sync_rule(job, 1).memory_bytes_per_s;
  EXPECT_NEAR(optimizer_s(100), norm_s + updated * 32 / 50e9, 0.02 * optimizer_s(100));
  EXPECT_NEAR((optimizer_s(50) - norm_s) / (optimizer_s(100) - norm_s), 0.5, 1e-6);
  EXPECT_GT(optimizer_s(25), 4 * optimizer_s(0));
}

// Weights, gradients and activations stay; 12 bytes of the share leave, and 16 are pinned on the host.
TEST(Offload, FreesStateOfTheDevice) {
  const Plan here = evaluate_even(offloaded("llama3-8b", 0), {.dp = 16});
  for (const std::int64_t percent : {25, 50, 100}) {
    const Plan there = evaluate_even(offloaded("llama3-8b", percent), {.dp = 16});
    const StageMemory &before = here.stages[0].memory, &after = there.stages[0].memory;
    EXPECT_EQ(after.weights, before.weights);
    EXPECT_EQ(after.gradients, before.gradients);
    EXPECT_NEAR(real(after.optimizer), real(before.optimizer) * (1 - real(percent) / 100), 2);
    EXPECT_NEAR(real(after.host), real(before.optimizer) / 12 * 16 * real(percent) / 100, 2);
    EXPECT_EQ(before.host, 0);
    EXPECT_THAT(there.assumptions, ::testing::Contains(HasSubstr("wait on the host")));
  }
}

// Megatron-Bridge's documentation, Qwen3 30B on H100 with TP 2, PP 2, EP 4: 3.8 GB less per quarter; 1.9, 4.2 and (with
// overlap) 3.9 times the step. Its moments are of 16 bits, and how long its step is it does not say: compared is what
// the steps gain.
TEST(Offload, Measured) {
  const auto priced = [](std::int64_t percent, bool overlap) {
    Job job = offloaded("qwen3-30b-a3b", percent, "megatron-bridge-2026-moe");
    job.stack.moments_bytes = 4;
    job.stack.offload_overlap = overlap;
    return evaluate_even(job, {.tp = 2, .ep = 4, .pp = 2, .dp = 4, .sp = true, .etp = 1});
  };
  const Plan none = priced(0, false), quarter = priced(25, false), all = priced(100, false), beside = priced(100, true);
  const auto optimizer = [](const Plan& plan) { return real(plan.stages[0].memory.optimizer); };
  EXPECT_NEAR((optimizer(none) - optimizer(quarter)) / 1e9, 3.8, 0.1);
  EXPECT_NEAR((optimizer(none) - optimizer(all)) / 1e9, 47.2 - 31.9, 0.3);
  const auto gain = [&](const Plan& plan) { return plan.prediction.iteration_s - none.prediction.iteration_s; };
  EXPECT_NEAR(gain(beside) / gain(all), (3.9 - 1) / (4.2 - 1), 0.03);
  EXPECT_NEAR(gain(all) / gain(quarter), (4.2 - 1) / (1.9 - 1), 0.6);
}

TEST(Offload, IsRefusedByName) {
  const auto refusal = [](const auto& make) {
    try {
      make();
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal([] { offloaded("llama3-8b", 101); }), HasSubstr("101 is out of range; allowed is 0 … 100"));
  EXPECT_THAT(refusal([] { offloaded("llama3-8b", 25, "fsdp2"); }), HasSubstr("stack fsdp2 keeps all state"));
  EXPECT_THAT(refusal([] { offloaded("llama3-8b", 25, "megatron-core", "h100", Optimizer::muon); }),
              HasSubstr("with adam, not with muon"));
  EXPECT_THAT(refusal([] { offloaded("llama3-8b", 25, "megatron-core", "vr200"); }), HasSubstr("host_link"));
  EXPECT_EQ(refusal([] { offloaded("llama3-8b", 100); }), "");
  const Job job = offloaded("llama3-8b", 50);
  const Strategy strategy = strategy_of({.dp = 16});
  for (const int zero : {0, 1, 2, 3}) {
    const std::string why = refuse_strategy(job, strategy, even_stages(job, strategy, Recompute::none, zero));
    EXPECT_EQ(why.empty(), zero == 1) << why;
  }
}

}  // namespace
}  // namespace nest::cost
