// The planner against every plan, priced one by one.
#include <gtest/gtest.h>

#include <cmath>

#include "small_job.h"

namespace nest {
namespace {

PlanRequest request_for(const test::SmallCase& small) {
  PlanRequest request;
  request.job = &small.job;
  request.limits = small.limits;
  return request;
}

TEST(PlannerExhaustive, FindsTheBestOfAllPlans) {
  int feasible = 0, infeasible = 0;
  std::int64_t plans = 0;
  for (std::uint32_t seed = 1; seed <= 320; ++seed) {
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
    PlanRequest frugal = request_for(small);
    frugal.order.objective = PlanObjective::device_hours;
    const PlanAnswer cheap = make_plan(frugal);
    ASSERT_EQ(cheap.outcome, PlanOutcome::optimal);
    const PlannedStrategy& best = cheap.plans.front();
    EXPECT_NEAR(best.evaluation.prediction.iteration_s * static_cast<double>(best.strategy.devices_spanned()) /
                    all.best_device_s,
                1, 1e-9);
  }
  EXPECT_GT(feasible, 150);
  EXPECT_GT(infeasible, 10);
  RecordProperty("plans", std::to_string(plans));
}

}  // namespace
}  // namespace nest
