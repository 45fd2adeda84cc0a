// The engine of this process: by hand, against the reference engine, and what ends it.
#include "simulate/engine.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "nest/simulate.h"
#include "random_program.h"
#include "reference_engine.h"
#include "simulate/fair_share.h"
#include "simulation_check/writing.h"
#include "test_support/scale.h"

namespace nest::simulate {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

SimulationProgram wires(const std::vector<double>& capacities) {
  SimulationProgram program;
  for (const double capacity : capacities) program.links.push_back({"wire", capacity, 1, 1});
  return program;
}

// Link a of 1, b of 2; one flow over both, one over each: half of a for those on a, the rest of b for the third.
TEST(FairShare, WhoIsHeldUpElsewhereLeavesTheRest) {
  SimulationProgram program = wires({1, 2});
  program.routes = {{{{0, 1}, {1, 1}}, 1}, {{{0, 1}}, 1}, {{{1, 1}}, 1}};
  FairShare share(program);
  for (std::int32_t r = 0; r < 3; ++r) share.add(r);
  EXPECT_EQ(share.settle().size(), 3U);
  EXPECT_DOUBLE_EQ(share.rate(0), 0.5);
  EXPECT_DOUBLE_EQ(share.rate(1), 0.5);
  EXPECT_DOUBLE_EQ(share.rate(2), 1.5);
  share.remove(1);
  share.settle();
  EXPECT_DOUBLE_EQ(share.rate(0), 1);
  EXPECT_DOUBLE_EQ(share.rate(2), 1);
}

// Capacity 12. One flow that loads the link three times and two that load it once: 3x + 2x = 12. The same link twice in
// a route is one load.
TEST(FairShare, LoadsAndFlowsCount) {
  SimulationProgram program = wires({12});
  program.routes = {{{{0, 1}, {0, 2}}, 1}, {{{0, 1}}, 1}};
  FairShare share(program);
  share.add(0);
  share.settle();
  EXPECT_DOUBLE_EQ(share.rate(0), 4);
  share.add(1);
  share.add(1);
  share.settle();
  EXPECT_DOUBLE_EQ(share.rate(0), 2.4);
  EXPECT_DOUBLE_EQ(share.rate(1), 2.4);
}

// What is not connected with a change is not looked at.
TEST(FairShare, ChangesStayWhereTheyAre) {
  SimulationProgram program = wires({10, 20, 30});
  program.routes = {{{{0, 1}}, 1}, {{{1, 1}, {2, 1}}, 1}, {{{2, 1}}, 1}, {{}, 1}};
  FairShare share(program);
  EXPECT_FALSE(share.is_shared(3));
  share.add(0);
  share.add(1);
  EXPECT_THAT(share.settle(), ::testing::UnorderedElementsAre(0, 1));
  share.add(2);
  EXPECT_THAT(share.settle(), ::testing::UnorderedElementsAre(1, 2));
  EXPECT_DOUBLE_EQ(share.rate(1), 15);
  EXPECT_DOUBLE_EQ(share.rate(2), 15);
  EXPECT_TRUE(share.settle().empty());
}

// A wire of 100 bytes/s; 300 bytes on a route that loads it three times, after a latency of 0.1 s; 300 on one that loads
// it once. The second alone until 0.6 s moves 10 bytes; then both run at 100 / 4 until it has its 290 at 12.2 s; the
// first has 10 left, at 100 / 3: 0.3 s.
TEST(Engine, RunsAsByHand) {
  SimulationProgram program = wires({100});
  program.routes = {{{{0, 3}}, 3}, {{{0, 1}}, 1}};
  program.activities = {
      {0.5, {}, {}}, {0, {{0, 0.1, 300}}, {0}}, {0, {{1, 0, 300}}, {0}}, {0, {}, {1, 2}}, {2, {}, {3}}};
  const Timeline timeline = execute(program);
  EXPECT_THAT(timeline.start_s, Pointwise(DoubleNear(1e-12), {0.0, 0.5, 0.5, 12.5, 12.5}));
  EXPECT_THAT(timeline.end_s, Pointwise(DoubleNear(1e-12), {0.5, 12.5, 12.2, 12.5, 14.5}));
  EXPECT_NEAR(timeline.total_s, 14.5, 1e-12);
  EXPECT_EQ(timeline.engine, kOwnEngine);
  EXPECT_EQ(refuse_timeline(program, timeline), "");
}

// A link that always works ends at max over j of release_j + work released from then on, however it is shared.
TEST(Engine, BusyPeriods) {
  struct Release {
    double at_s;
    double work;
  };
  const auto end_of = [](const std::vector<Release>& jobs) {
    SimulationProgram program = wires({1});
    program.routes = {{{{0, 1}}, 1}};
    for (const Release& job : jobs) {
      program.activities.push_back({job.at_s, {}, {}});
      program.activities.push_back({0, {{0, 0, job.work}}, {static_cast<std::int32_t>(program.activities.size()) - 1}});
    }
    return execute(program).total_s;
  };
  EXPECT_NEAR(end_of({{0, 4}, {3, 2}, {10, 1}}), 11, 1e-12);
  EXPECT_NEAR(end_of({{0, 4}, {3, 2}, {5, 1}}), 7, 1e-12);
  EXPECT_NEAR(end_of({{2, 3}, {2, 3}}), 8, 1e-12);
}

TEST(Engine, WhatMovesNothingTakesNoTime) {
  SimulationProgram program = wires({1});
  program.routes = {{{{0, 1}}, 1}, {{}, 1}};
  program.activities = {{0, {{0, 0, 0}, {1, 0, 1e9}}, {}}, {0, {{0, 2, 0}}, {0}}, {0, {}, {1}}};
  const Timeline timeline = execute(program);
  EXPECT_EQ(timeline.end_s, (std::vector<double>{0, 2, 2}));
  EXPECT_EQ(execute({}).total_s, 0);
  SimulationProgram joins;
  joins.activities.resize(200'000);  // a long chain must not need a deep stack
  for (std::int32_t i = 1; i < 200'000; ++i) joins.activities[static_cast<std::size_t>(i)].after = {i - 1};
  EXPECT_EQ(execute(joins).total_s, 0);
}

TEST(Engine, RefusesCircles) {
  SimulationProgram circle;
  circle.activities = {{1, {}, {1}}, {1, {}, {0}}, {1, {}, {}}};
  try {
    execute(circle);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("2 of 3 activities can never start"));
  }
}

TEST(Engine, EndsWhenItIsTold) {
  SimulationProgram chain;
  chain.activities.resize(100'000, {1, {}, {}});
  for (std::int32_t i = 1; i < 100'000; ++i) chain.activities[static_cast<std::size_t>(i)].after = {i - 1};
  const std::atomic<bool> stop = true;
  try {
    execute(chain, {.stop = &stop});
    FAIL();
  } catch (const SimulatorError& error) {
    EXPECT_THAT(error.what(), HasSubstr("was stopped"));
  }
  try {
    execute(chain, {.seconds = 1e-9});
    FAIL();
  } catch (const SimulatorError& error) {
    EXPECT_THAT(error.what(), HasSubstr("took more than 1e-09 s"));
  }
  EXPECT_EQ(execute(chain).total_s, 100'000);
}

TEST(Engine, AgreesWithTheReferenceEngine) {
  const std::uint32_t programs = test::scaled(2000, 100);
  for (std::uint32_t seed = 0; seed < programs; ++seed) {
    const SimulationProgram program = test::random_program(seed);
    const Timeline expected = test::reference_execute(program);
    const Timeline timeline = execute(program);
    ASSERT_EQ(refuse_timeline(program, timeline), "");
    for (std::size_t i = 0; i < program.activities.size(); ++i) {
      ASSERT_NEAR(timeline.start_s[i], expected.start_s[i], 1e-10 * expected.total_s) << "seed " << seed << ", " << i;
      ASSERT_NEAR(timeline.end_s[i], expected.end_s[i], 1e-10 * expected.total_s) << "seed " << seed << ", " << i;
    }
    const Timeline again = execute(program);
    ASSERT_EQ(again.end_s, timeline.end_s);
  }
}

// The promise about all plans, on a sample; docs/generated/simulation has the full one. NEST_TEST_SCALE makes it smaller, but not
// so small that a percentile means nothing.
TEST(Engine, RandomPlansAreClose) {
  const std::uint32_t plans = test::scaled(240, 120);
  std::vector<ComparedPlan> rows;
  rows.reserve(plans);
  for (std::uint32_t seed = 0; seed < plans; ++seed) rows.push_back(compare(random_plan(seed), SimulationEngine::own));
  EXPECT_LE(difference_quantile(rows, 0.5), 0.02);
  EXPECT_LE(difference_quantile(rows, 0.95), 0.08);
}

}  // namespace
}  // namespace nest::simulate
