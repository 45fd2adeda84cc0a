// Properties of whole searches.
#include "search/planner.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/presets.h"
#include "search/why.h"

namespace nest::search {
namespace {

cost::Job job_for(const std::string& model, const std::string& cluster, std::int64_t devices, std::int64_t batch) {
  Run run;
  run.global_batch = batch;
  run.sequence = 4096;
  return cost::make_job(model::find_model_preset(model).value(), run, cost::find_stack("megatron-core").value(),
                        cluster::find_cluster(cluster, devices).value());
}

PlanAnswer plan(const cost::Job& job, const plan::PlanLimits& limits = {}, int threads = 1, int top = 1) {
  PlanRequest request;
  request.job = &job;
  request.limits = limits;
  request.search.threads = threads;
  request.search.top = top;
  return make_plan(request);
}

double best_s(const PlanAnswer& answer) { return answer.plans.front().prediction.iteration_s; }

TEST(Planner, MoreOfAnythingIsNeverWorse) {
  const cost::Job base = job_for("llama3-8b", "dgx-h100", 16, 64);
  const PlanAnswer answer = plan(base);
  ASSERT_EQ(answer.outcome, PlanOutcome::optimal);
  cost::Job memory = base;
  memory.cluster.device.memory_bytes = memory.cluster.device.memory_bytes * 3 / 2;
  EXPECT_LE(best_s(plan(memory)), best_s(answer) * (1 + 1e-9));
  cost::Job bandwidth = base;
  for (cluster::Level& level : bandwidth.cluster.levels) level.bandwidth_bytes_per_s *= 2;
  bandwidth.cluster.fabric = cluster::make_fabric(bandwidth.cluster.levels, bandwidth.cluster.devices);
  EXPECT_LE(best_s(plan(bandwidth)), best_s(answer) * (1 + 1e-9));
  const cost::Job devices = job_for("llama3-8b", "dgx-h100", 32, 64);
  EXPECT_LE(best_s(plan(devices)), best_s(answer) * (1 + 1e-9));
}

TEST(Planner, FewerChoicesAreNeverBetter) {
  const cost::Job job = job_for("llama3-8b", "dgx-h100", 16, 64);
  const double best = best_s(plan(job));
  for (const char* setting :
       {"tp=4", "pp=2", "zero=0", "recompute=full", "schedule=1f1b", "sp=0", "uniform=1", "mbs=1"}) {
    plan::PlanLimits limits;
    plan::set_limit(limits, setting);
    const PlanAnswer answer = plan(job, limits);
    if (answer.outcome == PlanOutcome::no_plan) continue;
    EXPECT_GE(best_s(answer), best * (1 - 1e-9)) << setting;
    const Strategy& strategy = answer.plans.front().strategy;
    EXPECT_TRUE(std::string(setting) != "tp=4" || strategy.split.tp == 4);
    EXPECT_TRUE(std::string(setting) != "pp=2" || strategy.pp == 2);
  }
}

TEST(Planner, SaysWhatIsMissingWhenNothingFits) {
  // The second has its largest layers in the middle.
  for (const cost::Job& job : {job_for("gpt3-175b", "dgx-a100", 8, 8), job_for("deepseek-v3", "dgx-h100", 64, 64)}) {
    EXPECT_EQ(plan(job).outcome, PlanOutcome::no_plan);
    PlanRequest request;
    request.job = &job;
    const auto closest = closest_plan(request);
    ASSERT_TRUE(closest.has_value());
    EXPECT_GT(closest->needed_bytes, job.cluster.device.memory_bytes);
    EXPECT_FALSE(closest->plan.fits);
    // With that much memory something does fit.
    cost::Job larger = job;
    larger.cluster.device.memory_bytes = closest->needed_bytes + (std::int64_t{1} << 30);
    PlanRequest again = request;
    again.job = &larger;
    EXPECT_EQ(make_plan(again).outcome, PlanOutcome::optimal);
  }
}

TEST(Planner, StopsWhenTold) {
  const cost::Job job = job_for("llama3-70b", "dgx-h100", 256, 1024);
  PlanRequest request;
  request.job = &job;
  request.search.time_limit_s = 0;
  const PlanAnswer answer = make_plan(request);
  EXPECT_EQ(answer.outcome, PlanOutcome::limit);
  EXPECT_TRUE(answer.plans.empty());
}

TEST(Planner, RefusesLimitsThatAdmitNothing) {
  const cost::Job job = job_for("llama3-8b", "dgx-h100", 8, 8);
  plan::PlanLimits limits;
  plan::set_limit(limits, "tp=7");
  EXPECT_THROW(plan(job, limits), InputError);
  EXPECT_THROW(plan::set_limit(limits, "tp"), InputError);
  EXPECT_THROW(plan::set_limit(limits, "tq=8"), InputError);
  EXPECT_THROW(plan::set_limit(limits, "tp=0"), InputError);
  EXPECT_THROW(plan::set_limit(limits, "tp=8..4"), InputError);
  EXPECT_THROW(plan::set_limit(limits, "zero=4"), InputError);
  EXPECT_THROW(plan::set_limit(limits, "recompute=some"), InputError);
}

TEST(Planner, ExplainsByOverrulingOneDecision) {
  const cost::Job job = job_for("llama3-8b", "dgx-h100", 16, 64);
  PlanRequest request;
  request.job = &job;
  const PlanAnswer answer = make_plan(request);
  const std::vector<WhyNot> whys = explain_plan(request, answer, 0);
  EXPECT_FALSE(whys.empty());
  for (const WhyNot& why : whys) EXPECT_GE(why.excess, -1e-9) << why.name;
}

}  // namespace
}  // namespace nest::search
