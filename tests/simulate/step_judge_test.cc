// Lower bounds of programs, and steps of which a part is executed.
#include "simulate/step_judge.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "plan/strategy_text.h"
#include "random_program.h"
#include "simulate/least_time.h"
#include "simulate/lower.h"
#include "simulation_check/random_plan.h"
#include "test_support/scale.h"

namespace nest::simulate {
namespace {

using testing::ElementsAre;

// Two transfers of 10 bytes share a link of 5 bytes per second: the first after 1 s and a latency of 0.5 s, the other
// after 2 s and 0.25 s. A delay of 3 s follows either.
SimulationProgram two_transfers() {
  SimulationProgram program;
  program.links = {{"link", 5}};
  program.routes = {{{{0, 1}}}};
  program.activities = {{1, {}, {}}, {2, {}, {}}, {0, {{0, 0.5, 10}}, {0}}, {0, {{0, 0.25, 10}}, {1}}, {3, {}, {2, 3}}};
  return program;
}

TEST(LeastTime, ByHand) {
  const LeastTime least = least_time(two_transfers());
  EXPECT_DOUBLE_EQ(least.path_s, 2 + 0.25 + 10.0 / 5 + 3);
  EXPECT_DOUBLE_EQ(least.link_s, 1.5 + 20.0 / 5 + 3);
  EXPECT_EQ(least.link, 0);
  EXPECT_DOUBLE_EQ(least.seconds(), 8.5);
  EXPECT_DOUBLE_EQ(execute(two_transfers()).total_s, 8.5);
}

TEST(LeastTime, OrderDoesNotMatter) {
  SimulationProgram program = two_transfers();
  std::reverse(program.activities.begin(), program.activities.end());
  for (SimulatedActivity& activity : program.activities) {
    for (std::int32_t& before : activity.after) before = 4 - before;
  }
  EXPECT_DOUBLE_EQ(least_time(program).seconds(), 8.5);
}

TEST(LeastTime, NoProgramIsFaster) {
  const std::uint32_t programs = test::scaled(4000, 100);
  for (std::uint32_t seed = 0; seed < programs; ++seed) {
    const SimulationProgram program = test::random_program(seed);
    EXPECT_LE(least_time(program).seconds(), execute(program).total_s * (1 + 1e-9)) << "seed " << seed;
  }
}

TEST(LeastTime, NoPlanIsFaster) {
  const std::uint32_t plans = test::scaled(1000, 30);
  int exact = 0;
  for (std::uint32_t seed = 0; seed < plans; ++seed) {
    const RandomPlan plan = random_plan(seed);
    const LoweredPlan lowered = lower_plan(plan.job, plan.strategy, plan.stages);
    const double least = least_time(lowered.program).seconds(), taken = execute(lowered.program).total_s;
    EXPECT_LE(least, taken * (1 + 1e-9)) << "seed " << seed;
    exact += least >= taken * (1 - 1e-9);
  }
  EXPECT_GT(exact, static_cast<int>(plans / 4));  // where nothing is shared the path is the time
}

// The law that bounds searches, over what is executed: without a program, from sums over stages alone.
double least_law_share(RandomPlan plan) {
  const double taken = execute(lower_plan(plan.job, plan.strategy, plan.stages).program).total_s;
  plan.job.law = schedule::Law::least;
  const double least = cost::evaluate(plan.job, plan.strategy, plan.stages).prediction.iteration_s;
  EXPECT_LE(least, taken * (1 + 1e-9)) << plan::strategy_text(plan.strategy);
  return least / taken;
}

TEST(LeastLaw, NoPlanIsFaster) {
  const std::uint32_t plans = test::scaled(4000, 60);
  double tightness = 0;
  for (std::uint32_t seed = 0; seed < plans; ++seed) {
    SCOPED_TRACE(seed);
    tightness += least_law_share(random_plan(seed / 2, seed % 2 == 0 ? DrawnFrom::presets : DrawnFrom::slow)) / plans;
  }
  EXPECT_GT(tightness, 0.75);
}

// An odd number of replicas, some of whose groups cross units and some do not: the worst of each number is nobody's.
TEST(LeastLaw, NorWhereGroupsLieUnevenly) {
  for (const std::uint32_t seed : {2322, 2573, 3256}) {
    SCOPED_TRACE(seed);
    EXPECT_GT(least_law_share(random_plan(seed, DrawnFrom::presets)), 0.1);
  }
}

// The first micro-batch puts its head's gradients off: on its way there and back it is shorter than the mean one.
TEST(LeastLaw, NorWhereTheFirstMicroBatchIsShort) {
  EXPECT_GT(least_law_share(random_plan(443, DrawnFrom::presets)), 0.9999);
}

// Inside a rack's links a layer's weights take longer, between racks they wait longer for the first of them.
TEST(LeastLaw, NorWhereLatenciesAreOfOtherFlows) {
  EXPECT_GT(least_law_share(random_plan(1771, DrawnFrom::presets)), 0.99);
}

// Replicas side by side that lie alike come apart where tokens and rings of gradients share ports: a message meets half of the
// others.
TEST(LeastLaw, NorWhereReplicasComeApart) { EXPECT_GT(least_law_share(random_plan(7129 / 2, DrawnFrom::slow)), 0.9); }

// By GPipe a later stage has ended before most backward passes of the slowest one.
TEST(LeastLaw, NorByGPipeWhereGradientsLeaveTogether) {
  const RandomPlan plan = random_plan(9923 / 2, DrawnFrom::slow);
  ASSERT_EQ(plan.strategy.schedule, Schedule::gpipe);
  EXPECT_GT(least_law_share(plan), 0.5);
}

TEST(StepJudge, ExecutesTwoRoundsOfLongSteps) {
  EXPECT_THAT(executed_micro_batches(16, 4), ElementsAre(16));
  EXPECT_THAT(executed_micro_batches(1000, 4), ElementsAre(24, 28));
  EXPECT_THAT(executed_micro_batches(1001, 4), ElementsAre(25, 29));
  EXPECT_THAT(executed_micro_batches(1003, 16), ElementsAre(75, 91));
  EXPECT_THAT(executed_micro_batches(100, 1), ElementsAre(24, 25));
}

// The batch is made so long that only a part of it is executed.
TEST(StepJudge, ContinuesLongSteps) {
  const std::uint32_t plans = test::scaled(300, 12);
  std::uint32_t compared = 0, close = 0;
  for (std::uint32_t seed = 0; compared < plans; ++seed) {
    RandomPlan plan = random_plan(seed);
    const std::int64_t m = 12 * plan.strategy.pp + 120;
    if (plan.strategy.pp > 8) continue;
    plan.job.run.global_batch = m * plan.strategy.micro_batch * plan.strategy.dp;
    ++compared;
    const StepJudge judge(plan.job);
    const double part = judge.seconds(plan.strategy, plan.stages);
    EXPECT_LE(judge.least_s(plan.strategy, plan.stages), part * 1.001);
    const double whole = execute(lower_plan(plan.job, plan.strategy, plan.stages).program).total_s;
    EXPECT_NEAR(part / whole, 1, 0.02) << "seed " << seed;
    const Prediction::Breakdown parts = judge.explain(cost::evaluate(plan.job, plan.strategy, plan.stages)).breakdown_s;
    double sum = 0;
    for (const BreakdownPart& each : kBreakdownParts) sum += parts.*each.seconds;
    EXPECT_NEAR(sum / part, 1, 1e-9) << "seed " << seed;
    EXPECT_GT(parts.compute, 0);
    close += std::abs(part / whole - 1) < 1e-6;
  }
  EXPECT_GT(close, compared / 2);
}

}  // namespace
}  // namespace nest::simulate
