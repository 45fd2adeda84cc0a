#include "door/plan_variants.h"

#include <cstdint>
#include <utility>

#include "cost/evaluate.h"
#include "simulate/step_judge.h"

namespace nest {
namespace {

constexpr std::int64_t kFewPasses = 1024, kFewDevices = 16;  // of a small plan

}  // namespace

bool PlanVariants::is_small(const Plan& plan) const {
  const Strategy& strategy = plan.strategy;
  if (strategy.devices_used() > kFewDevices) return false;
  const std::int64_t m = micro_batches(strategy, request_.job->run.global_batch);
  const std::int64_t executed = simulate::executed_micro_batches(m, strategy.pp).back();
  return executed * strategy.pp * strategy.virtual_stages <= kFewPasses;
}

// A variant of `plan`, if it can be run and fits.
std::optional<Plan> PlanVariants::evaluated(const Plan& plan, const Strategy& strategy,
                                            const std::vector<StagePlan>& stages) const {
  if (!cost::refuse_strategy(*request_.job, strategy, stages).empty()) return std::nullopt;
  Plan other = cost::evaluate(*request_.job, strategy, stages);
  if (!other.fits) return std::nullopt;
  other.search = plan.search;
  return other;
}

std::vector<Plan> PlanVariants::of(const Plan& plan, search::MovedTo where) const {
  const cost::Job& job = *request_.job;
  const plan::PlanLimits& limits = request_.limits;
  std::vector<Plan> others;
  const auto add = [&](const Strategy& strategy, const std::vector<StagePlan>& stages) {
    if (std::optional<Plan> other = evaluated(plan, strategy, stages)) others.push_back(std::move(*other));
  };
  const bool may_defer =
      job.stack.defer_head_gradient && plan.strategy.pp > 1 && limits.defer_head[0] && limits.defer_head[1];
  Strategy otherwise = plan.strategy;
  otherwise.defer_head = !otherwise.defer_head;
  if (may_defer) add(otherwise, plan.stages);
  const bool small = is_small(plan);
  if (!limits.even_cuts) {
    for (const auto& stages : search::moved_cuts(space_, plan, where)) {
      add(plan.strategy, stages);
      if (may_defer && small) add(otherwise, stages);
    }
  }
  const auto which = small ? search::ShardedOtherwise::also_one : search::ShardedOtherwise::all_stages;
  for (const auto& stages : search::resharded(space_, plan, which)) add(plan.strategy, stages);
  return others;
}

std::vector<Plan> PlanVariants::sharded_otherwise(const Plan& plan) const {
  std::vector<Plan> others;
  for (const auto& stages : search::resharded(space_, plan, search::ShardedOtherwise::all_stages)) {
    std::optional<Plan> other = evaluated(plan, plan.strategy, stages);
    if (other && other->prediction.iteration_s != plan.prediction.iteration_s) others.push_back(std::move(*other));
  }
  return others;
}

Plan PlanVariants::likely_sharded(const Plan& plan) const {
  Plan likely = plan;
  if (!is_small(plan)) return likely;
  for (Plan& other : sharded_otherwise(plan)) {
    if (other.prediction.iteration_s < likely.prediction.iteration_s) likely = std::move(other);
  }
  return likely;
}

}  // namespace nest
