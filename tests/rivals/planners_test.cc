// Every planner alone: its plans are sound, fit, keep to the limits, and none is faster than the proven optimum.
#include <gtest/gtest.h>

#include "check/check.h"
#include "rivals/aceso.h"
#include "rivals/aceso_primitives.h"
#include "rivals/manual.h"
#include "rivals/mcmc.h"
#include "rivals/settle.h"
#include "rivals/side_by_side.h"
#include "search/judge.h"
#include "small_jobs.h"
#include "test_support/scale.h"

namespace nest::rivals {
namespace {

using test::small_job;
using test::SmallJob;

std::uint32_t scaled(std::uint32_t count) { return test::scaled(count, 3); }

search::PlanAnswer optimum(const SmallJob& small) {
  search::PlanRequest request;
  request.job = &small.job;
  request.limits = small.limits;
  return search::make_plan(request);
}

// How often the planner found a plan where there is one.
struct Tally {
  int asked = 0, found = 0, best = 0;
};

void judge(const SmallJob& small, const search::PlanAnswer& best, const RivalAnswer& answer, Tally& tally) {
  if (best.plans.empty()) {
    EXPECT_FALSE(answer.plan.has_value()) << "proven that nothing fits";
    EXPECT_FALSE(answer.note.empty());
    return;
  }
  ++tally.asked;
  if (!answer.plan) {
    EXPECT_FALSE(answer.note.empty());
    return;
  }
  ++tally.found;
  const Plan& plan = *answer.plan;
  const std::vector<StagePlan>& stages = plan.stages;
  EXPECT_EQ(cost::refuse_strategy(small.job, plan.strategy, stages), "");
  const Plan again = cost::evaluate(small.job, plan.strategy, stages);
  EXPECT_TRUE(again.fits) << again.misfit;
  EXPECT_DOUBLE_EQ(again.prediction.iteration_s, plan.prediction.iteration_s);
  EXPECT_TRUE(check::check_plan(plan, small.job.model, small.job.cluster, search::state_floor(small.job)).empty());
  const search::PlanSpace space(small.job, small.limits, small.job.cluster.devices);
  EXPECT_TRUE(key_of(space, plan.strategy).has_value());
  EXPECT_TRUE(admits_stages(space, plan.strategy, stages));
  const double optimal_s = best.plans.front().prediction.iteration_s;
  EXPECT_GE(again.prediction.iteration_s, optimal_s * (1 - 1e-9)) << "faster than a proven optimum";
  if (again.prediction.iteration_s <= optimal_s * (1 + 1e-9)) ++tally.best;
}

class EveryRival : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryRival, PlansAreSoundAndNeverBeatTheOptimum) {
  const Rival* rival = find_rival(GetParam());
  ASSERT_NE(rival, nullptr);
  Tally tally;
  for (std::uint32_t seed = 0; seed < scaled(14); ++seed) {
    const SmallJob small = small_job(seed);
    SCOPED_TRACE(small.name);
    judge(small, optimum(small), rival->plan(small.request()), tally);
  }
  EXPECT_GT(tally.found, 0);
  EXPECT_GE(2 * tally.found, tally.asked) << "finds a plan as a rule";
}

INSTANTIATE_TEST_SUITE_P(Own, EveryRival, ::testing::Values("manual", "mcmc", "aceso"),
                         [](const auto& name) { return std::string(name.param); });

SmallJob tiny_job(std::uint32_t seed) {
  SmallJob small = small_job(100 + seed);
  small.job.cluster = cluster::find_cluster("h100-spine-leaf", 4).value();
  small.job.run.global_batch = 8;
  plan::set_limit(small.limits, "pp=1..3");
  plan::set_limit(small.limits, "mbs=1,2");
  return small;
}

TEST(Mcmc, FindsTheOptimumOfTinyProblems) {
  Tally tally;
  for (std::uint32_t seed = 0; seed < scaled(6); ++seed) {
    const SmallJob small = tiny_job(seed);
    SCOPED_TRACE(small.name);
    judge(small, optimum(small), plan_mcmc(small.request()), tally);
  }
  EXPECT_GT(tally.asked, 0);
  EXPECT_EQ(tally.best, tally.asked);
}

TEST(Mcmc, AnswersAreTheSameForTheSameSeed) {
  const SmallJob small = tiny_job(0);
  const RivalAnswer first = plan_mcmc(small.request()), second = plan_mcmc(small.request());
  ASSERT_TRUE(first.plan && second.plan);
  EXPECT_EQ(first.plan->strategy, second.plan->strategy);
  EXPECT_EQ(first.considered, second.considered);
}

SmallJob preset(const std::string& model, const std::string& cluster, std::int64_t devices, std::int64_t batch,
                std::int64_t sequence) {
  SmallJob small;
  Run run;
  run.sequence = sequence;
  run.global_batch = batch;
  small.job = cost::make_job(model::find_model_preset(model).value(), run, cost::find_stack(run.stack).value(),
                             cluster::find_cluster(cluster, devices).value());
  return small;
}

TEST(Manual, SmallModelsAreDataParallel) {
  const RivalAnswer answer = plan_manual(preset("bert-large", "dgx-h100", 16, 256, 512).request());
  ASSERT_TRUE(answer.plan.has_value());
  EXPECT_EQ(answer.plan->strategy.split, Split{});
  EXPECT_EQ(answer.plan->strategy.pp, 1);
  EXPECT_EQ(answer.plan->strategy.dp, 16);
  EXPECT_EQ(answer.plan->stages.front().zero, 1);
}

TEST(Manual, LargeModelsFillTheNodeBeforeTheyArePipelined) {
  const RivalAnswer answer = plan_manual(preset("gpt3-175b", "dgx-a100", 256, 512, 2048).request());
  ASSERT_TRUE(answer.plan.has_value());
  const Strategy& strategy = answer.plan->strategy;
  EXPECT_GE(strategy.split.tp, 4);
  EXPECT_LE(strategy.split.tp, 8) << "tensor parallelism stays inside the node";
  EXPECT_GT(strategy.pp, 1);
  EXPECT_EQ(strategy.devices_used(), 256);
  EXPECT_TRUE(strategy.dp_inner == strategy.dp || strategy.dp_inner == 1);
}

TEST(Manual, FollowsLimitsThatTheGuidanceDoesNotKnow) {
  SmallJob small = preset("llama3.2-1b", "dgx-h100", 16, 32, 1024);
  plan::set_limit(small.limits, "sp=0");
  plan::set_limit(small.limits, "tp=2..8");
  RivalAnswer answer = plan_manual(small.request());
  ASSERT_TRUE(answer.plan) << answer.note;
  EXPECT_FALSE(answer.plan->strategy.split.sp);
  small.limits = {};
  plan::set_limit(small.limits, "tp=16");
  answer = plan_manual(small.request());
  ASSERT_TRUE(answer.plan) << answer.note;
  EXPECT_EQ(answer.plan->strategy.split.tp, 16) << "more than a node";
}

TEST(Aceso, StartsWhereTheLimitsAdmitIt) {
  SmallJob small = preset("llama3.2-1b", "dgx-h100", 16, 32, 1024);
  plan::set_limit(small.limits, "tp=16");
  EXPECT_TRUE(plan_aceso(small.request()).plan) << "more than a node";
  small.limits = {};
  plan::set_limit(small.limits, "schedule=interleaved");
  plan::set_limit(small.limits, "pp=2");
  const RivalAnswer answer = plan_aceso(small.request());
  ASSERT_TRUE(answer.plan) << answer.note;
  EXPECT_EQ(answer.plan->strategy.schedule, Schedule::interleaved);
}

TEST(Manual, SaysWhatIsMissing) {
  const RivalAnswer answer = plan_manual(preset("gpt3-175b", "dgx-a100", 8, 64, 2048).request());
  EXPECT_FALSE(answer.plan.has_value());
  EXPECT_FALSE(answer.note.empty());
}

TEST(Aceso, NamesTheBottleneckAndRelievesIt) {
  ConfigurationPrice price;
  price.stages = {{2, 0.5, 0, 0.9}, {3, 2, 0, 0.5}, {1, 0, 0, 0.7}};
  price.fullness = 0.9;
  EXPECT_EQ(bottleneck_order(price), (std::vector<std::int64_t>{1, 0, 2}));
  EXPECT_EQ(scarce_resources(price, 1).front(), Resource::communication);
  EXPECT_EQ(scarce_resources(price, 0).front(), Resource::arithmetic);
  price.stages[2].fullness = price.fullness = 1.5;
  EXPECT_EQ(bottleneck_order(price), (std::vector<std::int64_t>{2, 0, 1}));
  EXPECT_EQ(scarce_resources(price, 2), std::vector<Resource>{Resource::memory});
}

TEST(Aceso, PrimitivesThatSpareMemoryMayOnlyMoveLayersShardOrRecompute) {
  const SmallJob small = preset("llama3.2-1b", "dgx-h100", 8, 32, 1024);
  const search::PlanSpace space(small.job, {}, 8);
  search::PriceCache prices(small.job);
  ConfigurationPricer pricer(space, prices);
  Configuration start;
  start.key.stages = 4;
  const auto filled = refilled(space, pricer, start, true);
  ASSERT_TRUE(filled.has_value());
  const ConfigurationPrice price = pricer.price(*filled);
  const double before = price.stages[1].fullness;
  int smaller = 0, alike = 0;
  for (const Configuration& next : relieved(space, pricer, *filled, price, 1, Resource::memory)) {
    if (next.key.stages != 4) ADD_FAILURE() << "the number of stages is given";
    if (next.key != filled->key) continue;
    (pricer.price(next).stages[1].fullness < before ? smaller : alike) += 1;
  }
  EXPECT_GT(smaller, 3);
  EXPECT_EQ(alike, 0) << "every option and every cut relieves the stage";
}

TEST(SideBySide, OursComesFirstAndThreadsDoNotMatter) {
  const SmallJob small = small_job(4);
  const std::vector<std::string> names = {"manual", "nest", "mist"};
  const auto one = run_planners(names, small.request(), 1), three = run_planners(names, small.request(), 3);
  EXPECT_EQ(planner_names().front(), "nest");
  ASSERT_EQ(one.size(), names.size());
  for (std::size_t k = 0; k < names.size(); ++k) {
    EXPECT_EQ(one[k].planner, names[k]);
    ASSERT_EQ(one[k].plan.has_value(), three[k].plan.has_value());
    if (!one[k].plan) continue;
    EXPECT_EQ(one[k].plan->strategy, three[k].plan->strategy);
  }
  EXPECT_TRUE(one[1].optimal);
  EXPECT_EQ(one[1].plan->search->planner, "nest");
}

TEST(SideBySide, LimitsThatAdmitNothingAreBadInput) {
  SmallJob small = small_job(4);
  plan::set_limit(small.limits, "pp=4000");
  EXPECT_THROW(run_planners({"manual", "nest", "mcmc", "aceso"}, small.request(), 2), InputError);
  EXPECT_THROW(run_planners({"manual", "mist"}, small.request(), 1), InputError) << "whoever is asked";
}

TEST(SideBySide, WhoIsStoppedSaysSoAndNothingElse) {
  const SmallJob small = small_job(4);
  RivalRequest request = small.request();
  request.time_limit_s = 1e-9;
  for (const PlannerRun& run : run_planners({"manual", "mcmc", "aceso", "mist", "phaze"}, request, 1)) {
    EXPECT_TRUE(run.stopped) << run.planner;
    EXPECT_EQ(run.note, "stopped by the time limit") << run.planner;
  }
}

}  // namespace
}  // namespace nest::rivals
