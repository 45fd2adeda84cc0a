// MemoryFloor::slowest_s() against plans for which there is just enough memory.
#include "search/memory_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle.h"
#include "problem.h"
#include "problem_text.h"
#include "test_support/scale.h"

namespace nest::search {
namespace {

constexpr double kAnything = std::numeric_limits<double>::infinity();

struct Tight {
  int plans = 0;   // compared
  int forced = 0;  // of them, where memory forces the slowest stage to take longer than layers and stages alone do
};

// The slowest stage's layers, with what is recomputed.
double slowest_layers_s(const PairPrices& pair, const Strategy& strategy, const std::vector<StagePlan>& stages) {
  double slowest = 0;
  for (const StagePlan& stage : stages) {
    const cost::StageTreatment treatment =
        cost::stage_treatment(pair.treatments(), stage.recompute, strategy.virtual_stages);
    slowest = std::max(slowest, pair.stage_s(stage.first, stage.last + 1, treatment, strategy.pp > 1));
  }
  return slowest;
}

std::int64_t needed_bytes(const PairPrices& pair, const Strategy& strategy, const std::vector<StagePlan>& stages) {
  std::int64_t needed = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto stage = static_cast<std::int64_t>(s);
    needed = std::max(needed, pair.memory().estimate(strategy, stages[s], stage).needed);
  }
  return needed;
}

// The devices have what one plan needs and no more: neither its own strategy's bound nor that of a strategy with more
// replicas, which is meant to hold for it too, may exceed its slowest stage.
void compare(test::Problem problem, test::Dice& dice, Tight& tight) {
  const std::vector<Strategy> strategies = test::all_strategies(problem.job, problem.limits, problem.devices());
  if (strategies.empty()) return;
  const Strategy strategy = dice.any(strategies);
  const std::vector<StagePlan> stages = test::random_stages(dice, problem.job, problem.limits, strategy);
  if (stages.empty()) return;
  problem.job.cluster.device.memory_bytes = needed_bytes(
      *PriceCache(problem.job, problem.limits).get(strategy.split, strategy.micro_batch), strategy, stages);
  PriceCache prices(problem.job, problem.limits);
  const PairPrices& pair = *prices.get(strategy.split, strategy.micro_batch);
  const double slowest = slowest_layers_s(pair, strategy, stages);
  const MemoryFloor floor(problem.job, problem.limits);
  for (const Strategy& largest : strategies) {
    if (!(largest.split == strategy.split) || largest.micro_batch != strategy.micro_batch ||
        largest.pp != strategy.pp || largest.schedule != strategy.schedule ||
        largest.virtual_stages != strategy.virtual_stages || largest.dp < strategy.dp) {
      continue;
    }
    const double low = floor.slowest_s(largest, pair, kAnything);
    ASSERT_LE(low, slowest * (1 + 1e-9)) << "dp " << largest.dp << " bounds " << test::strategy_line(strategy, stages);
    ++tight.plans;
    tight.forced += low > pair.slowest_s(strategy.pp) * (1 + 1e-6);
  }
}

TEST(MemoryFloor, NoPlanThatFitsHasAFasterSlowestStage) {
  Tight tight;
  const std::uint32_t problems = test::scaled(3000, 300);
  for (std::uint32_t seed = 1; seed <= problems; ++seed) {
    // Every third problem is a mixture; the others are of all kinds.
    const test::Problem problem =
        seed % 3 == 0 ? test::random_problem(seed, test::Leaning::experts) : test::random_problem(seed);
    test::Dice dice(seed);
    for (int plan = 0; plan < 4; ++plan) compare(problem, dice, tight);
    if (HasFailure()) FAIL() << test::problem_text(problem);
  }
  EXPECT_GT(tight.plans, static_cast<int>(problems));
  EXPECT_GT(tight.forced, static_cast<int>(problems) / 10);
}

TEST(MemoryFloor, OfTinyProblems) {
  Tight tight;
  const std::uint32_t problems = test::scaled(3000, 300);
  for (std::uint32_t seed = 1; seed <= problems; ++seed) {
    const test::Problem problem = test::tiny_problem(seed);
    test::Dice dice(seed);
    for (int plan = 0; plan < 4; ++plan) compare(problem, dice, tight);
    if (HasFailure()) FAIL() << test::problem_text(problem);
  }
  EXPECT_GT(tight.plans, static_cast<int>(problems));
}

// With room for nothing, nothing is fast enough; with room for everything, memory says nothing.
TEST(MemoryFloor, EndsOfTheScale) {
  test::Problem problem = test::random_problem(3, test::Leaning::experts, 0);
  const Strategy strategy = test::all_strategies(problem.job, problem.limits, problem.devices()).front();
  PriceCache prices(problem.job);
  const PairPrices& pair = *prices.get(strategy.split, strategy.micro_batch);
  problem.job.cluster.device.memory_bytes = 1;
  EXPECT_TRUE(std::isinf(MemoryFloor(problem.job, problem.limits).slowest_s(strategy, pair, kAnything)));
  problem.job.cluster.device.memory_bytes = std::int64_t{1} << 60;
  EXPECT_EQ(MemoryFloor(problem.job, problem.limits).slowest_s(strategy, pair, kAnything), pair.slowest_s(strategy.pp));
}

}  // namespace
}  // namespace nest::search
