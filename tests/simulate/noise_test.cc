// Noise: what it changes, what it leaves, and what several executions amount to.
#include "simulate/noise.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include "model/presets.h"
#include "simulate/engine.h"
#include "simulation_check/random_plan.h"

namespace nest::simulate {
namespace {

// Two replicas of four stages with two chunks, 32 micro-batches: gradients are exchanged behind passes, so that some are
// cut in pieces.
LoweredPlan noisy_plan(Merge merge) {
  Run run;
  run.sequence = 2048;
  run.global_batch = 64;
  const cost::Job job =
      cost::make_job(model::find_model_preset("llama3-8b").value(), run, cost::find_stack("megatron-core").value(),
                     cluster::find_cluster("h100-spine-leaf", 64).value());
  Strategy s;
  s.split.tp = 8;
  s.split.sp = true;
  s.pp = 4;
  s.dp = s.dp_inner = 2;
  s.virtual_stages = 2;
  s.schedule = Schedule::interleaved;
  return lower_plan(job, s, cost::even_stages(job, s, Recompute::full, 1), 1, merge);
}

std::int64_t passes_of(const RandomPlan& plan) {
  return micro_batches(plan.strategy, plan.job.run.global_batch) * plan.strategy.pp * plan.strategy.dp;
}

TEST(Noise, IsOfPassesOnly) {
  const LoweredPlan plan = noisy_plan(Merge::nothing);
  ASSERT_EQ(plan.symmetry().replica_classes(), 2U);
  const SimulationProgram program = with_noise(plan, {0.02, 7});
  using Key = std::tuple<Part, std::int32_t, std::int32_t, std::int32_t, std::int32_t>;
  std::map<Key, double> factors;
  for (std::size_t i = 0; i < program.activities.size(); ++i) {
    const ActivityLabel& label = plan.labels[i];
    const SimulatedActivity &quiet = plan.program.activities[i], &noisy = program.activities[i];
    EXPECT_EQ(noisy.flows, quiet.flows);
    EXPECT_EQ(noisy.after, quiet.after);
    if (label.part != Part::forward && label.part != Part::backward) {
      EXPECT_TRUE(label.part == Part::head_gradient || noisy.seconds == quiet.seconds);
      continue;
    }
    const double factor = noisy.seconds / quiet.seconds;
    const Key key(label.part, label.stage, label.replicas, label.micro_batch, label.chunk);
    const auto [known, added] = factors.try_emplace(key, factor);
    EXPECT_TRUE(added || std::abs(known->second - factor) < 1e-12) << "pieces of one pass";
  }
  EXPECT_LT(factors.size(), static_cast<std::size_t>(
                                std::count_if(plan.labels.begin(), plan.labels.end(), [](const ActivityLabel& label) {
                                  return label.part == Part::forward || label.part == Part::backward;
                                })));
  ASSERT_EQ(factors.size(), 2U * 2U * 32U * 2U * 4U);
  // 1,024 draws: their mean within 4 standard errors, their deviation within a tenth.
  double sum = 0, squares = 0;
  std::set<double> different;
  for (const auto& [key, factor] : factors) {
    sum += factor - 1;
    squares += (factor - 1) * (factor - 1);
    different.insert(factor);
    EXPECT_LE(std::abs(factor - 1), 0.02 * 2 * std::sqrt(3.0));
  }
  const auto count = static_cast<double>(factors.size());
  EXPECT_NEAR(sum / count, 0, 4 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.002);
  EXPECT_GT(different.size(), factors.size() * 9 / 10);
}

TEST(Noise, DependsOnTheSeedAlone) {
  const LoweredPlan plan = noisy_plan(Merge::nothing);
  EXPECT_EQ(with_noise(plan, {0.01, 3}), with_noise(plan, {0.01, 3}));
  EXPECT_NE(with_noise(plan, {0.01, 3}), with_noise(plan, {0.01, 4}));
  EXPECT_EQ(with_noise(plan, {0, 3}), plan.program);
}

// Totals of 1, 2 and 4 s: mean 7/3, squares of differences 16/9 + 1/9 + 25/9, over two.
TEST(Noise, MeanAndDeviationByHand) {
  const LoweredPlan plan = noisy_plan(Merge::alike);
  double next_s = 0.5;
  const NoisySteps steps = execute_noisy(plan, {0.01, 1}, 3, [&](const SimulationProgram&) {
    Timeline timeline;
    timeline.total_s = next_s *= 2;
    return timeline;
  });
  EXPECT_EQ(steps.iteration_s, (std::vector<double>{1, 2, 4}));
  EXPECT_DOUBLE_EQ(steps.mean_s(), 7.0 / 3);
  EXPECT_DOUBLE_EQ(steps.deviation_s(), std::sqrt(42.0 / 18));
  EXPECT_EQ(steps.lowest_s(), 1);
  EXPECT_EQ(steps.highest_s(), 4);
  EXPECT_EQ((NoisySteps{{3}}).deviation_s(), 0);
}

// Without noise, replicas for themselves are what they are together; with it, steps differ and are a little longer: a
// stage waits for the slowest of its neighbours.
TEST(Noise, MovesTheStep) {
  const auto own = [](const SimulationProgram& program) { return execute(program); };
  const double together_s = execute(noisy_plan(Merge::alike).program).total_s;
  const LoweredPlan plan = noisy_plan(Merge::nothing);
  EXPECT_NEAR(execute_noisy(plan, {0, 1}, 1, own).mean_s(), together_s, 1e-9 * together_s);
  const NoisySteps steps = execute_noisy(plan, {0.01, 1}, 5, own);
  EXPECT_GT(steps.deviation_s(), 0);
  EXPECT_LT(steps.deviation_s(), 0.02 * together_s);
  EXPECT_NEAR(steps.mean_s(), together_s, 0.1 * together_s);
  EXPECT_EQ(execute_noisy(plan, {0.01, 3}, 1, own).iteration_s.front(), steps.iteration_s[2]);
}

// Replicas have noise of their own; what is alike inside them may be merged all the same.
TEST(Noise, MergingInsideReplicasIsExact) {
  const auto own = [](const SimulationProgram& program) { return execute(program); };
  int merged = 0, apart = 0;
  for (std::uint32_t seed = 0; merged < 12 || apart < 4; ++seed) {
    ASSERT_LT(seed, 2000U);
    const RandomPlan plan = random_plan(seed);
    if (plan.job.cluster.devices > 64 || passes_of(plan) > 256) continue;
    const auto lowered = [&](Merge merge) { return lower_plan(plan.job, plan.strategy, plan.stages, 1, merge); };
    const LoweredPlan inside = lowered(Merge::inside_replicas), all = lowered(Merge::nothing);
    ASSERT_EQ(inside.symmetry().first_replica, all.symmetry().first_replica);
    if (inside.symmetry().routes.size() == all.symmetry().routes.size()) continue;
    ++merged;
    if (plan.strategy.teams() > 1) ++apart;
    const NoisySteps one = execute_noisy(inside, {0.01, 5}, 2, own), other = execute_noisy(all, {0.01, 5}, 2, own);
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_NEAR(one.iteration_s[k], other.iteration_s[k], 1e-7 * other.iteration_s[k]) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace nest::simulate
