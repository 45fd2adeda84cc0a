#include "rivals/phaze.h"

#include <gtest/gtest.h>

#include "tiny_jobs.h"

namespace nest::rivals {
namespace {

using test::tiny_job;

search::PlanAnswer optimum(const RivalRequest& request) {
  search::PlanRequest plan;
  plan.job = request.job;
  plan.limits = published_limits(request);
  return search::make_plan(plan);
}

TEST(Phaze, IsOptimalOnFlatNetworks) {
  int planned = 0;
  for (std::uint32_t seed = 1; seed <= 24; ++seed) {
    const cost::Job job = tiny_job(seed, 1);
    RivalRequest request;
    request.job = &job;
    if (seed % 4 == 1) plan::set_limit(request.limits, "dp_inner=1,2");
    if (seed % 4 == 2) plan::set_limit(request.limits, "uniform=1");
    const search::PlanAnswer best = optimum(request);
    const RivalAnswer answer = plan_phaze(request);
    ASSERT_EQ(answer.plan.has_value(), !best.plans.empty()) << "seed " << seed << " " << answer.note;
    if (!answer.plan) continue;
    ++planned;
    EXPECT_DOUBLE_EQ(answer.plan->prediction.iteration_s, best.plans.front().prediction.iteration_s) << "seed " << seed;
  }
  EXPECT_GT(planned, 12);
}

TEST(Phaze, IsNoFasterThanTheOptimumOnOthersAndSometimesSlower) {
  int planned = 0, slower = 0;
  for (std::uint32_t seed = 1; seed <= 16; ++seed) {
    const cost::Job job = tiny_job(seed, 2 + seed % 2);
    RivalRequest request;
    request.job = &job;
    const search::PlanAnswer best = optimum(request);
    const RivalAnswer answer = plan_phaze(request);
    ASSERT_EQ(answer.plan.has_value(), !best.plans.empty()) << "seed " << seed << " " << answer.note;
    if (!answer.plan) continue;
    ++planned;
    const double optimal_s = best.plans.front().prediction.iteration_s;
    const double its_s = answer.plan->prediction.iteration_s;
    EXPECT_TRUE(answer.plan->fits);
    EXPECT_GE(its_s, optimal_s * (1 - 1e-9)) << "seed " << seed;
    if (its_s > 1.01 * optimal_s) ++slower;
  }
  EXPECT_GT(planned, 8);
  EXPECT_GT(slower, 0) << "levels matter";
}

TEST(Phaze, SaysThatItWasStopped) {
  const cost::Job job = tiny_job(3, 3);
  RivalRequest request;
  request.job = &job;
  request.time_limit_s = 1e-9;
  const RivalAnswer answer = plan_phaze(request);
  EXPECT_EQ(answer.note, "stopped by the time limit");
  EXPECT_TRUE(answer.stopped);
}

TEST(Phaze, SaysThatNothingFits) {
  const cost::Job job = tiny_job("llama3.2-1b", 2, 8, test::tiny_cluster({{4, 400}, {2, 25}}, 0.5));
  RivalRequest request;
  request.job = &job;
  const RivalAnswer answer = plan_phaze(request);
  EXPECT_FALSE(answer.plan);
  EXPECT_FALSE(answer.stopped);
  EXPECT_EQ(answer.note, "none of its plans fits into memory");
}

}  // namespace
}  // namespace nest::rivals
