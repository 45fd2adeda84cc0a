// Search, evaluator and least memory against exhaustive enumeration on small random instances.
#include <gtest/gtest.h>

#include <cmath>

#include "instance/evaluate.h"
#include "instance/least_memory.h"
#include "instance/planner.h"
#include "instance/read.h"
#include "instance/solve.h"
#include "oracle.h"
#include "random_instance.h"
#include "test_support/scale.h"

namespace nest::test {
namespace {

instance::ProfileInstance load(const RawInstance& raw) {
  return instance::read_profile_instance(doc::parse_json("random.json", to_json(raw)));
}

instance::ProfilePlan to_plan(const OraclePlan& oracle) {
  instance::ProfilePlan plan{oracle.width, oracle.replicas, {}};
  int begin = 0;
  for (const int length : oracle.lengths) {
    plan.cuts.push_back(begin);
    begin += length;
  }
  return plan;
}

TEST(Oracle, SearchFindsTheOptimum) {
  const auto instances = static_cast<int>(scaled(20000, 1000));
  std::mt19937_64 random(20240607);
  int infeasible = 0;
  int several_stages = 0;
  int deep_links = 0;
  for (int i = 0; i < instances; ++i) {
    const RawInstance raw = random_instance(random);
    const instance::ProfileInstance instance = load(raw);
    const auto expected = oracle_optimum(raw);
    const instance::ProfileAnswer answer = instance::plan_profile_instance(instance);
    ASSERT_EQ(answer.solution.plan.has_value(), expected.has_value()) << "instance " << i << ":\n" << to_json(raw);
    if (!expected) {
      ++infeasible;
      continue;
    }
    ASSERT_EQ(answer.solution.objective_s, *expected) << "instance " << i << ":\n" << to_json(raw);
    ASSERT_EQ(answer.solution.lower_bound_s, *expected);
    ASSERT_EQ(answer.evaluation.objective_s, *expected) << "instance " << i << ":\n" << to_json(raw);
    several_stages += answer.solution.plan->cuts.size() > 1;
    for (const instance::ProfileStage& stage : answer.evaluation.stages) deep_links += stage.in_level > 1;
  }
  // The instances must exercise what they are for.
  EXPECT_GT(infeasible, instances / 20);
  EXPECT_LT(infeasible, instances / 2);
  EXPECT_GT(several_stages, instances / 10);
  EXPECT_GT(deep_links, instances / 100);
}

TEST(Oracle, EvaluatorPricesEveryPlan) {
  std::mt19937_64 random(77);
  for (int i = 0; i < 2000; ++i) {
    const RawInstance raw = random_instance(random);
    const instance::ProfileInstance instance = load(raw);
    for_each_plan(raw, [&](const OraclePlan& oracle, std::optional<double> price) {
      const instance::ProfileEvaluation evaluation = instance::evaluate_profile_plan(instance, to_plan(oracle));
      ASSERT_EQ(evaluation.valid(), price.has_value()) << to_json(raw);
      if (price) {
        ASSERT_EQ(evaluation.objective_s, *price) << to_json(raw);
      } else {
        ASSERT_EQ(evaluation.violations, std::vector{instance::ProfileViolation::memory}) << to_json(raw);
      }
    });
    if (HasFatalFailure()) return;
  }
}

TEST(Oracle, LeastMemoryIsTheBorderOfFeasibility) {
  std::mt19937_64 random(4711);
  for (int i = 0; i < 2000; ++i) {
    RawInstance raw = random_instance(random);
    const auto least = instance::least_profile_memory(load(raw));
    bool any_shape = false;
    for_each_plan(raw, [&](const OraclePlan&, std::optional<double>) { any_shape = true; });
    ASSERT_EQ(least.has_value(), any_shape) << to_json(raw);
    if (!least) continue;
    raw.memory = least->bytes;
    const instance::ProfileSolution enough = instance::solve_profile_instance(load(raw));
    ASSERT_TRUE(enough.plan && oracle_optimum(raw)) << to_json(raw);
    if (least->bytes == 0) continue;
    raw.memory = least->bytes - 1;
    ASSERT_FALSE(instance::solve_profile_instance(load(raw)).plan || oracle_optimum(raw)) << to_json(raw);
  }
}

TEST(Oracle, ReaderOrdersNodesLikeTheArtifact) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    const RawInstance raw = random_instance(random);
    for (const instance::ProfileGraph& graph : load(raw).graphs) {
      std::vector<int> ids;
      for (const instance::ProfileNode& node : graph.nodes) ids.push_back(static_cast<int>(node.id));
      ASSERT_EQ(ids, oracle_order(raw, static_cast<int>(graph.width))) << to_json(raw);
    }
  }
}

}  // namespace
}  // namespace nest::test
