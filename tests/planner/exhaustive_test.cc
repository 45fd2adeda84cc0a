// The planner against every plan, priced one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "small_job.h"

namespace nest {
namespace {

PlanRequest request_for(const test::SmallCase& small) {
  PlanRequest request;
  request.job = &small.job;
  request.limits = small.limits;
  return request;
}

void count_features(const PlannedStrategy& best, std::map<std::string, int>& seen) {
  const Strategy& strategy = best.strategy;
  seen["pipeline"] += strategy.pp > 1;
  seen["interleaved"] += strategy.virtual_stages > 1;
  seen["tensor"] += strategy.split.tp > 1;
  seen["context"] += strategy.split.cp > 1;
  seen["expert"] += strategy.split.ep > 1;
  seen["inner"] += strategy.dp_inner > 1 && strategy.dp_inner < strategy.dp;
  seen["pitch"] += strategy.pitch > 0;
  bool recomputes = false, sharded = false, mixed = false;
  for (const StagePlan& stage : best.evaluation.stages) {
    recomputes = recomputes || stage.recompute != Recompute::none;
    sharded = sharded || stage.zero >= 2;
    mixed = mixed || stage.recompute != best.evaluation.stages.front().recompute ||
            stage.zero != best.evaluation.stages.front().zero;
  }
  seen["recompute"] += recomputes;
  seen["sharded"] += sharded;
  seen["mixed"] += mixed;
}

// 320 in the regular run; multiplied by $NEST_TEST_SCALE where that is set (sanitizers: 0.1).
std::uint32_t cases() {
  const char* scale = std::getenv("NEST_TEST_SCALE");
  return static_cast<std::uint32_t>(std::max(8.0, 320 * (scale ? std::atof(scale) : 1.0)));
}

TEST(PlannerExhaustive, FindsTheBestOfAllPlans) {
  int feasible = 0, infeasible = 0;
  std::map<std::string, int> seen;  // among the best plans
  std::int64_t plans = 0;
  for (std::uint32_t seed = 1; seed <= cases(); ++seed) {
    const test::SmallCase small = test::small_case(seed);
    SCOPED_TRACE(small.text);
    const test::Exhaustive all = test::try_everything(small);
    plans += all.plans;
    ASSERT_GT(all.plans, 0);
    const PlanAnswer answer = make_plan(request_for(small));
    if (std::isinf(all.best_s)) {
      ++infeasible;
      EXPECT_EQ(answer.outcome, PlanOutcome::no_plan);
      continue;
    }
    ++feasible;
    ASSERT_EQ(answer.outcome, PlanOutcome::optimal);
    EXPECT_NEAR(answer.plans.front().evaluation.prediction.iteration_s / all.best_s, 1, 1e-9);
    count_features(answer.plans.front(), seen);
    PlanRequest frugal = request_for(small);
    frugal.order.objective = PlanObjective::device_hours;
    const PlanAnswer cheap = make_plan(frugal);
    ASSERT_EQ(cheap.outcome, PlanOutcome::optimal);
    const PlannedStrategy& best = cheap.plans.front();
    EXPECT_NEAR(best.evaluation.prediction.iteration_s * static_cast<double>(best.strategy.devices_spanned()) /
                    all.best_device_s,
                1, 1e-9);
  }
  EXPECT_GT(feasible, static_cast<int>(cases()) / 3);
  if (cases() >= 320) {
    EXPECT_GT(infeasible, 10);
    for (const char* feature : {"pipeline", "tensor", "recompute", "sharded"}) EXPECT_GT(seen[feature], 10) << feature;
  }
  for (const auto& [feature, count] : seen) RecordProperty(feature, count);
  RecordProperty("plans", std::to_string(plans));
}

}  // namespace
}  // namespace nest
