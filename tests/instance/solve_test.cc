#include "instance/solve.h"

#include <gtest/gtest.h>

#include "example.h"
#include "instance/least_memory.h"
#include "instance/planner.h"
#include "instance/read.h"

namespace nest::test {
namespace {

// `count` equal layers in a chain, one level, links that cost nothing.
instance::ProfileInstance equal_chain(int count, std::int64_t devices, std::int64_t micro_batches) {
  instance::ProfileInstance instance;
  instance.devices = devices;
  instance.levels = {{devices, 1e9, 0}};
  instance.device_memory_bytes = 1000;
  instance.micro_batches = micro_batches;
  instance::ProfileGraph graph;
  for (int i = 0; i < count; ++i) {
    graph.nodes.push_back({i, 1, 1, 1, 2});
    if (i > 0) graph.edges.push_back({i - 1, i, 0});
  }
  instance.graphs = {graph};
  return instance;
}

TEST(Solve, ExampleByHand) {
  // One micro-batch: d = 1, so no synchronisation, and S = 1 costs 15 + 24 = 39; every cut costs at least 20 * 2 = 40.
  instance::ProfileInstance instance = example();
  instance.micro_batches = 1;
  const instance::ProfileSolution one = instance::solve_profile_instance(instance);
  EXPECT_EQ(one.plan, (instance::ProfilePlan{1, 1, {0}}));
  EXPECT_EQ(one.objective_s, 39);
  EXPECT_EQ(one.lower_bound_s, 39);
}

TEST(Solve, CutsWhereMemoryForcesIt) {
  // n layers at s need 3 n + (s - 1) n: 12 for one stage, 8 and 6 for two equal ones, 6, 5, 4, 3 for four.
  instance::ProfileInstance instance = equal_chain(4, 4, 1);
  instance.device_memory_bytes = 8;
  const instance::ProfileSolution solution = instance::solve_profile_instance(instance);
  EXPECT_EQ(solution.plan, (instance::ProfilePlan{1, 1, {0, 2}}));
  EXPECT_EQ(solution.objective_s, 12);  // 6 * (1 + 2 - 1); four stages cost 3 * 4, the same
  instance.device_memory_bytes = 7;
  EXPECT_EQ(instance::solve_profile_instance(instance).plan, (instance::ProfilePlan{1, 1, {0, 1, 2, 3}}));
  instance.devices = 3;  // 1 + 1 + 2 layers need 5, 4 and 6
  EXPECT_EQ(instance::solve_profile_instance(instance).plan, (instance::ProfilePlan{1, 1, {0, 1, 2}}));
  EXPECT_EQ(instance::solve_profile_instance(instance).objective_s, 18);
}

TEST(Solve, TiesGoToFewerReplicas) {
  // 3 replicas of 4 micro-batches take two rounds, as 2 do; parameters are free to synchronise.
  instance::ProfileInstance instance = equal_chain(1, 3, 4);
  instance.graphs[0].nodes[0].parameter_bytes = 0;
  EXPECT_EQ(instance::solve_profile_instance(instance).plan, (instance::ProfilePlan{1, 2, {0}}));
}

TEST(Solve, TiesGoToTheSmallerWidth) {
  instance::ProfileInstance instance = equal_chain(2, 4, 1);
  instance.graphs.push_back(instance.graphs[0]);
  instance.graphs[1].width = 2;
  EXPECT_EQ(instance::solve_profile_instance(instance).plan->width, 1);
  instance.graphs[1].nodes[0].forward_s = 0.5;
  EXPECT_EQ(instance::solve_profile_instance(instance).plan->width, 2);
}

TEST(Solve, FewerReplicasWhereSynchronisationIsSlow) {
  instance::ProfileInstance instance = equal_chain(1, 2, 2);
  instance.levels = {{1, 1, 100}, {2, 1, 100}};
  EXPECT_EQ(instance::solve_profile_instance(instance).objective_s, 6);
  EXPECT_EQ(instance::solve_profile_instance(instance).plan->replicas, 1);
}

TEST(Solve, ReportsThatNothingFits) {
  instance::ProfileInstance instance = equal_chain(3, 2, 4);
  instance.device_memory_bytes = 6;  // one layer in front of two: 3 + 1 and 6
  EXPECT_TRUE(instance::solve_profile_instance(instance).plan);
  instance.device_memory_bytes = 5;
  const instance::ProfileAnswer answer = instance::plan_profile_instance(instance);
  EXPECT_FALSE(answer.solution.plan);
  ASSERT_TRUE(answer.least_memory);
  EXPECT_EQ(answer.least_memory->bytes, 6);
  EXPECT_EQ(answer.least_memory->stages, 2);
}

TEST(Solve, ReportsThatTheDevicesAreTooFew) {
  instance::ProfileInstance instance = equal_chain(3, 2, 4);
  instance.expert_degree = 3;
  const instance::ProfileAnswer answer = instance::plan_profile_instance(instance);
  EXPECT_FALSE(answer.solution.plan);
  EXPECT_FALSE(answer.least_memory);
  EXPECT_EQ(answer.solution.counters.widths, 0);
}

TEST(Solve, CountsItsWork) {
  const instance::ProfileSolution solution = instance::solve_profile_instance(equal_chain(4, 4, 4));
  EXPECT_EQ(solution.counters.widths, 1);
  EXPECT_EQ(solution.counters.intervals, 10);  // 4 + 3 + 2 + 1
  EXPECT_EQ(solution.counters.states, 6);      // 3 + 2 + 1
  EXPECT_GT(solution.counters.transitions, 0);
  EXPECT_GT(solution.counters.candidates, 0);
}

TEST(Solve, LargestInstanceAccepted) {
  instance::ProfileInstance instance = equal_chain(instance::ProfileLimits::kNodes, instance::ProfileLimits::kDevices,
                                                   instance::ProfileLimits::kMicroBatches);
  instance.device_memory_bytes = 1LL << 60;
  const instance::ProfileAnswer answer = instance::plan_profile_instance(instance);
  ASSERT_TRUE(answer.solution.plan);
  // Links are free and layers equal, so all devices work all the time but for filling the pipeline.
  const double work =
      3.0 * instance::ProfileLimits::kNodes * static_cast<double>(instance::ProfileLimits::kMicroBatches);
  EXPECT_GE(answer.solution.objective_s, work / instance::ProfileLimits::kDevices);
  EXPECT_LE(answer.solution.objective_s, 1.001 * work / instance::ProfileLimits::kDevices);
}

}  // namespace
}  // namespace nest::test
