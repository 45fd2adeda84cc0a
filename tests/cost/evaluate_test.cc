#include "cost/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost/constants.h"
#include "cost/messages.h"
#include "cost_support.h"

namespace nest::cost {
namespace {

using ::testing::HasSubstr;

double sum(const Prediction::Breakdown& parts) {
  return parts.compute + parts.recompute + parts.bubble + parts.tp + parts.cp + parts.ep + parts.p2p + parts.zero +
         parts.grad_sync + parts.optimizer + parts.other;
}

struct Case {
  const char* name;
  JobSpec job;
  Layout layout;
  Recompute recompute;
  int zero;
};

std::vector<Case> cases() {
  return {
      {"one stage", {}, {.cp = 2, .dp = 4}, Recompute::none, 1},
      {"interleaved",
       {.model = "llama3-70b", .devices = 128, .batch = 256},
       {.tp = 4, .cp = 2, .pp = 4, .dp = 4, .virtual_stages = 5, .sp = true},
       Recompute::none,
       1},
      {"sharded", {.stack = "fsdp2", .devices = 32, .batch = 64}, {.dp = 32}, Recompute::selective, 3},
      {"scattered gradients", {.devices = 16, .batch = 64}, {.pp = 2, .dp = 8}, Recompute::full, 2},
      {"experts",
       {.model = "mixtral-8x7b", .devices = 64, .batch = 256, .sequence = 4096},
       {.tp = 2, .ep = 8, .pp = 2, .dp = 16, .sp = true},
       Recompute::full,
       1},
      {"no overlap",
       {.model = "gpt3-35b",
        .device = "a100-80",
        .stack = "megatron-2021",
        .devices = 64,
        .port_bytes_per_s = 25e9,
        .batch = 64,
        .sequence = 2048},
       {.tp = 8, .pp = 4, .dp = 2},
       Recompute::full,
       0},
      {"tensor by tensor",
       {.model = "llama2-7b",
        .device = "a800",
        .stack = "internevo",
        .devices = 64,
        .port_bytes_per_s = 25e9,
        .batch = 512,
        .sequence = 4096},
       {.dp = 64, .micro_batch = 2},
       Recompute::none,
       1},
  };
}

TEST(Evaluate, BreakdownSumsToTheIteration) {
  for (const Case& c : cases()) {
    const Plan result = evaluate_even(test_job(c.job), c.layout, c.recompute, c.zero);
    EXPECT_NEAR(sum(result.prediction.breakdown_s), result.prediction.iteration_s, 1e-9 * result.prediction.iteration_s)
        << c.name;
    EXPECT_GT(result.prediction.mfu, 0.02) << c.name;
    EXPECT_LT(result.prediction.mfu, 0.9) << c.name;
    EXPECT_FALSE(result.assumptions.empty()) << c.name;
  }
}

TEST(Evaluate, IterationFollowsFromItsStages) {
  const Case c = cases()[1];
  const Job job = test_job(c.job);
  const Plan result = evaluate_even(job, c.layout, c.recompute, c.zero);
  double slowest = 0, total = 0;
  for (const StagePlan& stage : result.stages) {
    const StageTime& t = stage.time;
    EXPECT_NEAR(t.total, t.forward + t.backward + t.recompute + t.p2p + t.zero, 1e-12);
    slowest = std::max(slowest, t.total);
    total += t.total;
  }
  const auto& parts = result.prediction.breakdown_s;
  const double per_step = parts.grad_sync + parts.optimizer + parts.other;
  const Strategy strategy = strategy_of(c.layout);
  const PriceTable table = price_table(job, strategy.split, strategy.micro_batch);
  const double messages =
      message_rule(job, strategy, table)
          .fill_s(message_lines(job.cluster, strategy, job.law), table.wrap_bytes, table.wrap_bytes);
  EXPECT_GT(messages, 0);
  EXPECT_NEAR(result.prediction.iteration_s, 64 * slowest + (total - slowest) / 5 + messages + per_step, 1e-9);
  EXPECT_NEAR(parts.bubble, (total - slowest) / 5, 1e-9) << "the stages' alone";
  EXPECT_NEAR(result.prediction.samples_per_s * result.prediction.iteration_s, 256, 1e-9);
  EXPECT_NEAR(result.prediction.tokens_per_s_per_device * 128 / 8192, result.prediction.samples_per_s, 1e-9);
}

// What this model gave when its constants were fitted; no measurement is involved. These hold the formulas in place.
TEST(Evaluate, RegressionVectors) {
  struct Vector {
    const char* name;
    JobSpec job;
    Layout layout;
    Recompute recompute;
    int zero;
    double iteration_s;
  };
  const Vector vectors[] = {
      {"llama3-70b, 128 H100",
       {.model = "llama3-70b", .devices = 128, .batch = 256},
       {.tp = 4, .cp = 2, .pp = 4, .dp = 4, .virtual_stages = 5, .sp = true},
       Recompute::none,
       1,
       14.7504},
      {"llama3-70b in fp8, 64 H100",
       {.model = "llama3-70b", .devices = 64, .batch = 128, .precision = Precision::fp8},
       {.tp = 4, .pp = 8, .dp = 2, .virtual_stages = 5, .sp = true},
       Recompute::none,
       1,
       10.4476},
      {"llama3-8b, 8 H100", {}, {.cp = 2, .dp = 4}, Recompute::none, 1, 12.8311},
      {"llama3-8b, FSDP on 8 H100 of 500 W",
       {.device = "h100-96-500w", .stack = "fsdp2", .batch = 16},
       {.dp = 8, .micro_batch = 2},
       Recompute::selective,
       3,
       2.53335},
      {"gpt3-175b, 64 A100 of 2021",
       {.model = "gpt3-175b",
        .device = "a100-80",
        .stack = "megatron-2021",
        .devices = 64,
        .port_bytes_per_s = 25e9,
        .batch = 64,
        .sequence = 2048},
       {.tp = 8, .pp = 8, .virtual_stages = 3},
       Recompute::full,
       0,
       19.3496},
  };
  for (const Vector& v : vectors) {
    const Plan result = evaluate_even(test_job(v.job), v.layout, v.recompute, v.zero);
    EXPECT_NEAR(result.prediction.iteration_s / v.iteration_s, 1, 0.02) << v.name;
  }
}

TEST(Evaluate, FasterHardwareIsNeverSlower) {
  for (const Case& c : cases()) {
    const Job job = test_job(c.job);
    const double base = evaluate_even(job, c.layout, c.recompute, c.zero).prediction.iteration_s;
    const auto with = [&](auto&& change) {
      Job faster = job;
      change(faster.cluster);
      faster.cluster.fabric = cluster::make_fabric(faster.cluster.levels, faster.cluster.devices);
      return evaluate_even(faster, c.layout, c.recompute, c.zero).prediction.iteration_s;
    };
    EXPECT_LE(with([](cluster::Cluster& x) {
                for (double& peak : x.device.peak_flops_per_s) peak *= 2;
              }),
              base)
        << c.name;
    EXPECT_LE(with([](cluster::Cluster& x) { x.device.memory_bytes_per_s *= 2; }), base) << c.name;
    for (std::size_t l = 0; l < job.cluster.levels.size(); ++l) {
      EXPECT_LE(with([l](cluster::Cluster& x) { x.levels[l].bandwidth_bytes_per_s *= 2; }), base)
          << c.name << " level " << l;
      EXPECT_LE(with([l](cluster::Cluster& x) { x.levels[l].latency_s /= 2; }), base) << c.name << " level " << l;
    }
  }
}

TEST(Evaluate, TwiceTheBatchTakesLongerButAtMostTwice) {
  for (const Case& c : cases()) {
    Job job = test_job(c.job);
    const double once = evaluate_even(job, c.layout, c.recompute, c.zero).prediction.iteration_s;
    job.run.global_batch *= 2;
    const double twice = evaluate_even(job, c.layout, c.recompute, c.zero).prediction.iteration_s;
    EXPECT_GT(twice, once) << c.name;
    EXPECT_LE(twice, 2 * once * (1 + 1e-12)) << c.name;
  }
}

TEST(Evaluate, RecomputationCostsTimeAndOverlapSavesIt) {
  const Case c = cases()[1];
  Job job = test_job(c.job);
  const double none = evaluate_even(job, c.layout, Recompute::none, 1).prediction.iteration_s;
  const double selective = evaluate_even(job, c.layout, Recompute::selective, 1).prediction.iteration_s;
  const double full = evaluate_even(job, c.layout, Recompute::full, 1).prediction.iteration_s;
  EXPECT_LT(none, selective);
  EXPECT_LT(selective, full);
  job.stack.tensor_overlap = false;
  EXPECT_GT(evaluate_even(job, c.layout, Recompute::none, 1).prediction.iteration_s, none);
  job.stack.data_overlap = DataOverlap::none;
  EXPECT_GT(evaluate_even(job, c.layout, Recompute::none, 1).prediction.breakdown_s.grad_sync, 0);
}

TEST(Evaluate, EveryShippedClusterCanBePriced) {
  for (const cluster::Cluster& preset : cluster::cluster_presets()) {
    cluster::Cluster cluster = preset;
    nest::Run run;
    if (cluster.device.peak(Precision::bf16) <= 0) run.precision = Precision::fp16;
    run.global_batch = 4 * cluster.devices;
    run.sequence = 2048;
    const Job job =
        make_job(model::find_model_preset("llama3-8b").value(), run, find_stack("megatron-core").value(), cluster);
    const Strategy strategy = strategy_of({.tp = 2, .pp = 2, .dp = cluster.devices / 4, .sp = true});
    const auto stages = even_stages(job, strategy, Recompute::none, 1);
    ASSERT_EQ(refuse_strategy(job, strategy, stages), "") << cluster.name;
    const Prediction prediction = evaluate(job, strategy, stages).prediction;
    EXPECT_GT(prediction.mfu, 0.005) << cluster.name;
    EXPECT_LT(prediction.mfu, 0.9) << cluster.name;
  }
}

TEST(EvenStages, DivideEvenlyOrCountTheEnds) {
  const Job dense = test_job({.model = "llama3-70b", .devices = 128});
  const auto four = even_stages(dense, strategy_of({.pp = 4, .virtual_stages = 5}), Recompute::none, 1);
  ASSERT_EQ(four.size(), 4U);
  EXPECT_EQ(four[0].first, 0);
  EXPECT_EQ(four[0].last, 20);  // the embedding and 20 blocks
  EXPECT_EQ(four[3].first, 61);
  EXPECT_EQ(four[3].last, 81);  // 20 blocks and the head
  // 61 blocks and the two ends on 8 stages: 63 = 7 * 8 + 7.
  const Job uneven = test_job({.model = "deepseek-v3", .devices = 128});
  const auto eight = even_stages(uneven, strategy_of({.pp = 8}), Recompute::none, 1);
  for (std::size_t s = 0; s < 8; ++s) EXPECT_EQ(eight[s].last - eight[s].first + 1, s < 7 ? 8 : 7);
  EXPECT_EQ(refuse_strategy(uneven, strategy_of({.pp = 8}), eight), "");
}

TEST(RefuseStrategy, SaysWhyInOneSentence) {
  const Job job = test_job({.model = "llama3-70b", .devices = 64, .batch = 64});
  const auto why = [&](const Layout& layout) {
    const Strategy strategy = strategy_of(layout);
    return refuse_strategy(job, strategy, even_stages(job, strategy, Recompute::none, 1));
  };
  EXPECT_EQ(why({.tp = 8, .pp = 4, .dp = 2, .sp = true}), "");
  EXPECT_THAT(why({.tp = 8, .pp = 4, .dp = 4, .sp = true}), HasSubstr("128 devices are needed; the cluster has 64"));
  EXPECT_THAT(why({.tp = 3}), HasSubstr("tp=3"));
  EXPECT_THAT(why({.ep = 2}), HasSubstr("dense"));
  EXPECT_THAT(why({.dp = 64, .micro_batch = 2}), HasSubstr("128 sequences; the global batch has 64"));
  EXPECT_THAT(why({.pp = 2, .virtual_stages = 64}), HasSubstr("virtual stages"));
  Strategy strategy = strategy_of({.tp = 8, .dp = 8});
  auto stages = even_stages(job, strategy, Recompute::none, 1, 3);
  EXPECT_THAT(refuse_strategy(job, strategy, stages), HasSubstr("degree of 3"));
  stages[0].zero_degree = 8;
  stages[0].last -= 1;
  EXPECT_THAT(refuse_strategy(job, strategy, stages), HasSubstr("the model has 82 layers"));
  strategy.dp_inner = 3;
  EXPECT_THAT(refuse_strategy(job, strategy, stages), HasSubstr("dp_inner=3"));
  strategy = strategy_of({.pp = 2});
  strategy.virtual_stages = 2;
  EXPECT_THAT(refuse_strategy(job, strategy, stages), HasSubstr("interleaved"));
}

// Ten micro-batches on four stages.
TEST(RefuseStrategy, GroupsOfMicroBatches) {
  const Job job = test_job({.model = "llama3-70b", .devices = 64, .batch = 10});
  Strategy strategy = strategy_of({.tp = 8, .pp = 4, .virtual_stages = 2, .sp = true});
  const auto stages = even_stages(job, strategy, Recompute::none, 1);
  const auto why = [&](std::int64_t group) {
    strategy.group = group;
    return refuse_strategy(job, strategy, stages);
  };
  for (const std::int64_t group : {0, 5, 6, 10}) EXPECT_EQ(why(group), "") << group;
  EXPECT_THAT(why(3), HasSubstr("group=3 is out of range; allowed is 4 … 10"));
  EXPECT_THAT(why(11), HasSubstr("group=11 is out of range"));
  EXPECT_THAT(why(7), HasSubstr("group=7 leaves 3 of 10 micro-batches for the last group"));
  strategy.schedule = Schedule::one_f_one_b;
  strategy.virtual_stages = 1;
  EXPECT_THAT(why(5), HasSubstr("group=5 needs the interleaved schedule"));
}

// The vector of 15, 13, 11, 9 chunks of two; four messages wait at both ends; the step takes as long as in groups of 4.
TEST(Evaluate, LargerGroupsHoldMoreAndTakeAsLong) {
  const Job job = test_job({.model = "llama3-70b", .devices = 64, .batch = 8});
  Strategy strategy = strategy_of({.tp = 8, .pp = 4, .virtual_stages = 2, .sp = true});
  const auto stages = even_stages(job, strategy, Recompute::none, 1);
  const Plan by_stages = evaluate(job, strategy, stages);
  strategy.group = 8;
  const Plan grouped = evaluate(job, strategy, stages);
  EXPECT_EQ(grouped.prediction.iteration_s, by_stages.prediction.iteration_s);
  const double chunks[] = {15, 13, 11, 9}, fewer[] = {11, 9, 7, 5};
  for (std::size_t s = 0; s < 4; ++s) {
    const StageMemory &more = grouped.stages[s].memory, &less = by_stages.stages[s].memory;
    EXPECT_DOUBLE_EQ(more.in_flight, chunks[s] / 2);
    EXPECT_DOUBLE_EQ(less.in_flight, fewer[s] / 2);
    // One message: 8,192 tokens of 8,192 numbers in 16 bits, an eighth of them here.
    const std::int64_t waiting = s == 0 || s == 3 ? 4 * std::int64_t{8192} * 8192 * 2 / 8 : 0;
    EXPECT_EQ(more.allocated - less.allocated, more.activations - less.activations + waiting) << s;
  }
}

TEST(Job, DeviceWithoutTheArithmeticIsRefused) {
  EXPECT_THROW(test_job({.device = "a100-80", .precision = Precision::fp8}), std::exception);
  EXPECT_THROW(test_job({.device = "h100", .precision = Precision::fp4}), std::exception);
  EXPECT_NO_THROW(test_job({.device = "b200", .precision = Precision::fp4}));
  EXPECT_THROW(parse_precision("bf17"), std::exception);
}

}  // namespace
}  // namespace nest::cost
