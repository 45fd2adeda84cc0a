// Steps and memory under schedules that compute weight gradients apart.
#include <gmock/gmock.h>

#include "cost/tables.h"
#include "cost_support.h"
#include "schedule/filled.h"

namespace nest::cost {
namespace {

Plan evaluate_with(const Job& job, Schedule schedule, std::int64_t pp, std::int64_t chunks) {
  Strategy strategy;
  strategy.pp = pp;
  strategy.schedule = schedule;
  strategy.virtual_stages = chunks;
  return evaluate(job, strategy, even_stages(job, strategy, Recompute::none, 0, 1));
}

// Weight gradients are those of matrix products: about half of these products' backward, none of attention's.
TEST(SplitSchedule, WeightGradientsAreThoseOfProducts) {
  const Job job = test_job({.model = "llama3-8b", .stack = "fsdp2", .sequence = 2048});
  const PriceTable table = price_table(job, Split{}, 1);
  const StageSums all = sum_stage(job, table, 0, static_cast<int>(job.model.layer_count()) - 1, 1);
  EXPECT_GT(all.weight_s, 0.3 * all.backward_s);
  EXPECT_LT(all.weight_s, 0.5 * all.backward_s);
  const schedule::PassSeconds mean = mean_stage(all, 4);
  EXPECT_NEAR(mean.total_s(), (all.forward_s + all.backward_s) / 4, 1e-12);
  EXPECT_NEAR(mean.weight_s, all.weight_s / 4, 1e-12);
}

// 32 blocks on four stages: T = m tau + (S - tau) / v - E + Y, E that of the mean stage.
TEST(SplitSchedule, AStepIsTheFormulaLessWhatIsFilled) {
  const Job job = test_job({.model = "llama3-8b", .stack = "fsdp2", .batch = 16, .sequence = 4096});
  const PriceTable table = price_table(job, Split{}, 1);
  const schedule::PassSeconds mean =
      mean_stage(sum_stage(job, table, 0, static_cast<int>(job.model.layer_count()) - 1, 4), 4);
  for (const Schedule kind : {Schedule::zb_h1, Schedule::zbv, Schedule::v_half, Schedule::v_min, Schedule::dualpipev}) {
    const std::int64_t v = kind == Schedule::zb_h1 ? 1 : 2;
    const Plan plan = evaluate_with(job, kind, 4, v);
    double slowest = 0, sum = 0;
    for (const StagePlan& stage : plan.stages) {
      slowest = std::max(slowest, stage.time.total);
      sum += stage.time.total;
      EXPECT_GT(stage.time.weight, 0);
    }
    const double filled = schedule::filled_share(kind, {4, v, 16}, schedule::shares_of(mean)) * mean.total_s();
    const auto& parts = plan.prediction.breakdown_s;
    const double bubble = (sum - slowest) / static_cast<double>(v) - filled;
    EXPECT_NEAR(parts.bubble, bubble, 1e-12) << to_string(kind);
    EXPECT_NEAR(plan.prediction.iteration_s, 16 * slowest + bubble + parts.grad_sync + parts.optimizer + parts.other,
                1e-9);
    const std::int64_t held = kind == Schedule::v_half  ? 6
                              : kind == Schedule::v_min ? 5
                              : kind == Schedule::zbv   ? 8
                                                        : 9;
    EXPECT_EQ(plan.stages.back().memory.in_flight, kind == Schedule::zb_h1 ? 4 : static_cast<double>(held) / 2);
  }
  EXPECT_EQ(evaluate_with(job, Schedule::one_f_one_b, 4, 1).stages.front().time.weight, 0);
}

TEST(SplitSchedule, BubblesOrderAsTheyShould) {
  const Job job = test_job({.model = "llama3-8b", .stack = "fsdp2", .batch = 32, .sequence = 4096});
  const auto bubble = [&](Schedule kind, std::int64_t v) {
    return evaluate_with(job, kind, 4, v).prediction.breakdown_s.bubble;
  };
  EXPECT_LT(bubble(Schedule::zbv, 2), bubble(Schedule::zb_h1, 1));
  EXPECT_LT(bubble(Schedule::zb_h1, 1), bubble(Schedule::interleaved, 2));
  EXPECT_LT(bubble(Schedule::interleaved, 2), bubble(Schedule::one_f_one_b, 1));
  EXPECT_LT(bubble(Schedule::v_half, 2), bubble(Schedule::v_min, 2));
}

TEST(SplitSchedule, TooFewMicroBatchesAreRefused) {
  const Job job = test_job({.model = "llama3-8b", .stack = "fsdp2", .batch = 7, .sequence = 4096});
  Strategy strategy;
  strategy.pp = 4;
  strategy.schedule = Schedule::dualpipev;
  strategy.virtual_stages = 2;
  EXPECT_THAT(refuse_strategy(job, strategy, even_stages(job, strategy, Recompute::none, 0, 1)),
              testing::HasSubstr("needs 8 micro-batches"));
}

// AMD's Primus measured Llama2-7B in one pipeline of eight MI300X against 1F1B: throughput and memory. It does not say
// how many micro-batches; 4 p are taken. Four numbers are out of reach and not asked for: what interleaving takes (1.31
// measured, 1.21 here) and V-min (0.73, 0.82), and the throughput of V-half and V-min (1.08 and 0.88 measured), whose
// orders are built for F, I and W of equal length and lose time in every round where I takes 0.41 of a step, as here.
TEST(SplitSchedule, PrimusTable) {
  nest::Run run;
  run.global_batch = 32;
  run.sequence = 4096;
  const Job job = make_job(model::find_model_preset("llama2-7b").value(), run, find_stack("megatron-core").value(),
                           cluster::find_cluster("mi300x-cluster", 8).value());
  const Plan plain = evaluate_with(job, Schedule::one_f_one_b, 8, 1);
  struct Measured {
    Schedule kind;
    std::int64_t chunks;
    double throughput, memory;  // 0: not asked for
  };
  for (const Measured& row : {Measured{Schedule::interleaved, 2, 1.09, 0}, Measured{Schedule::zb_h1, 1, 1.13, 1.02},
                              Measured{Schedule::zbv, 2, 1.12, 1.11}, Measured{Schedule::v_half, 2, 0, 0.86}}) {
    const Plan plan = evaluate_with(job, row.kind, 8, row.chunks);
    const double throughput = plain.prediction.iteration_s / plan.prediction.iteration_s;
    const double memory = static_cast<double>(plan.prediction.peak_memory_bytes) /
                          static_cast<double>(plain.prediction.peak_memory_bytes);
    if (row.throughput > 0) {
      EXPECT_NEAR(throughput, row.throughput, 0.05) << to_string(row.kind);
    }
    if (row.memory > 0) {
      EXPECT_NEAR(memory, row.memory, 0.05) << to_string(row.kind);
    }
  }
}

}  // namespace
}  // namespace nest::cost
