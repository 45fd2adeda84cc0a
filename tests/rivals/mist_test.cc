#include "rivals/mist.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "rivals/partition.h"
#include "tiny_jobs.h"

namespace nest::rivals {
namespace {

using test::tiny_job;

// Every option of the limits for stage after stage, for every cut; each plan priced by evaluate().
double try_every_plan(const cost::Job& job, const plan::PlanLimits& limits, const Strategy& strategy,
                      const std::vector<std::int64_t>& cuts = {}) {
  const auto layers = static_cast<int>(job.model.layers.size());
  double least_s = std::numeric_limits<double>::infinity();
  std::vector<StagePlan> stages;
  const std::function<void(int)> go = [&](int first) {
    const auto left = static_cast<int>(strategy.pp) - static_cast<int>(stages.size());
    if (left == 0) {
      if (first < layers) return;
      const Plan evaluation = cost::evaluate(job, strategy, stages);
      if (evaluation.fits) least_s = std::min(least_s, evaluation.prediction.iteration_s);
      return;
    }
    for (int last = left == 1 ? layers - 1 : first; last <= layers - left; ++last) {
      const bool cut =
          cuts.empty() || last == layers - 1 || std::find(cuts.begin(), cuts.end(), last + 1) != cuts.end();
      for (int code = 0; cut && code < 12; ++code) {
        const int recompute = code / 4, zero = code % 4;
        if (!limits.recompute.at(static_cast<std::size_t>(recompute)) ||
            !limits.zero.at(static_cast<std::size_t>(zero))) {
          continue;
        }
        StagePlan stage;
        stage.first = first;
        stage.last = last;
        stage.zero = zero;
        stage.zero_degree = 0;
        stage.recompute = static_cast<Recompute>(recompute);
        const bool alike =
            stages.empty() || (stages.front().zero == zero && stages.front().recompute == stage.recompute);
        if (limits.uniform && !alike) continue;
        stages.push_back(stage);
        go(last + 1);
        stages.pop_back();
      }
    }
  };
  go(0);
  return least_s;
}

plan::PlanLimits few_options(std::uint32_t seed) {
  plan::PlanLimits limits;
  constexpr std::array<const char*, 4> kZero = {"zero=0,1", "zero=1,3", "zero=0,2", "zero=1"};
  constexpr std::array<const char*, 4> kRecompute = {"recompute=none,full", "recompute=none,selective",
                                                     "recompute=selective,full", "recompute=none,selective,full"};
  plan::set_limit(limits, kZero.at(seed % 4));
  plan::set_limit(limits, kRecompute.at(seed / 4 % 4));
  plan::set_limit(limits, "mbs=1,2");
  plan::set_limit(limits, "pp=1..3");
  plan::set_limit(limits, "tp=1,2");
  plan::set_limit(limits, "ep=1,2");
  if (seed % 3 == 0) plan::set_limit(limits, "uniform=1");
  if (seed % 3 == 1) plan::set_limit(limits, "uneven_batch=0");
  return limits;
}

TEST(Mist, EqualsEveryPlanOfItsSpace) {
  int planned = 0, none = 0;
  for (std::uint32_t seed = 1; seed <= 16; ++seed) {
    const cost::Job job = tiny_job(seed, 1 + seed % 2);
    RivalRequest request;
    request.job = &job;
    request.limits = few_options(seed);
    const plan::PlanLimits limits = mist_limits(request.limits);
    const search::PlanSpace space(job, limits, job.cluster.devices);
    double least_s = std::numeric_limits<double>::infinity();
    for (const Strategy& strategy : mist_strategies(space)) {
      least_s = std::min(least_s, try_every_plan(job, limits, strategy));
    }
    const RivalAnswer answer = plan_mist(request);
    ASSERT_EQ(answer.plan.has_value(), std::isfinite(least_s)) << "seed " << seed << " " << answer.note;
    ++(answer.plan ? planned : none);
    if (!answer.plan) continue;
    EXPECT_NEAR(answer.plan->prediction.iteration_s, least_s, 1e-9 * least_s) << "seed " << seed;
  }
  EXPECT_GT(planned, 7);
  EXPECT_GT(none, 0);
}

TEST(Mist, FillsTheCluster) {
  const cost::Job job = tiny_job("gpt2-xl", 2, 12, test::tiny_cluster({{4, 400}, {2, 25}}, 80));
  const search::PlanSpace space(job, mist_limits({}), 8);
  bool any = false;
  for (const Strategy& strategy : mist_strategies(space)) {
    EXPECT_EQ(strategy.dp_inner, strategy.dp);
    EXPECT_EQ(strategy.virtual_stages, 1);
    any = any || strategy.devices_used() == 8;
  }
  EXPECT_TRUE(any);
}

TEST(Mist, IsNoFasterThanTheOptimum) {
  int planned = 0;
  for (std::uint32_t seed = 1; seed <= 16; ++seed) {
    const cost::Job job = tiny_job(seed, 3);
    RivalRequest request;
    request.job = &job;
    search::PlanRequest plan;
    plan.job = &job;
    const search::PlanAnswer best = search::make_plan(plan);
    const RivalAnswer answer = plan_mist(request);
    if (!answer.plan) continue;
    ++planned;
    ASSERT_FALSE(best.plans.empty()) << "seed " << seed;
    EXPECT_GE(answer.plan->prediction.iteration_s, best.plans.front().prediction.iteration_s * (1 - 1e-9))
        << "seed " << seed;
  }
  EXPECT_GT(planned, 7);
}

TEST(Mist, SaysWhyThereIsNoPlan) {
  const cost::Job job = tiny_job("llama3.2-1b", 2, 8, test::tiny_cluster({{4, 400}}, 0.5));
  RivalRequest request;
  request.job = &job;
  EXPECT_EQ(plan_mist(request).note, "none of its plans fits into memory");
  plan::set_limit(request.limits, "schedule=interleaved");
  EXPECT_EQ(plan_mist(request).note, "the limits admit none of its plans: 1F1B, and replicas of a stage together");
}

TEST(ChainPartition, CutsOnlyWhereItMay) {
  const cost::Job job = tiny_job("qwen3-0.6b", 3, 8, test::tiny_cluster({{4, 400}}, 80));
  const plan::PlanLimits limits = few_options(1);
  const search::PlanSpace space(job, limits, 4);
  search::PriceCache prices(job);
  ChainPartition partition(space, prices);
  Strategy strategy;
  strategy.pp = 2;
  strategy.dp = strategy.dp_inner = 2;
  for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{1}, {3, 4}, {1, 2, 3, 4}}) {
    partition.cut_only_at(cuts);
    const auto found = partition.solve(strategy, std::numeric_limits<double>::infinity());
    ASSERT_TRUE(found);
    EXPECT_NE(std::find(cuts.begin(), cuts.end(), found->stages.back().first), cuts.end());
    const double least_s = try_every_plan(job, limits, strategy, cuts);
    EXPECT_NEAR(found->time_s, least_s, 1e-9 * least_s);
    EXPECT_FALSE(partition.solve(strategy, least_s * (1 - 1e-6))) << "nothing is faster";
  }
}

}  // namespace
}  // namespace nest::rivals
