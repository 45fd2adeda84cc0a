#include "search/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "search/judge.h"

namespace nest {
namespace {

std::vector<StagePlan> stages_of(const PlanSpace& space, const Strategy& strategy, const LeafPlan& leaf) {
  std::vector<StagePlan> stages;
  for (std::size_t s = 0; s < leaf.options.size(); ++s) {
    const StageOption option = StageOption::from_code(leaf.options[s]);
    StagePlan stage;
    stage.first = static_cast<int>(leaf.cuts[s]);
    stage.last = static_cast<int>(leaf.cuts[s + 1] - 1);
    stage.zero = option.zero;
    stage.zero_degree = LeafSolver::degree_of(space, strategy, option);
    stage.recompute = static_cast<Recompute>(option.recompute);
    stages.push_back(stage);
  }
  return stages;
}

// The search's value must be evaluate()'s, and the plan must fit.
PlannedStrategy reprice(const PlanSpace& space, const RankedPlan& plan) {
  constexpr double kAgreement = 1e-6;
  PlannedStrategy planned;
  planned.strategy = space.strategy(plan.key);
  const std::vector<StagePlan> stages = stages_of(space, planned.strategy, plan.leaf);
  const std::string refused = refuse_strategy(space.job(), planned.strategy, stages);
  NEST_CHECK(refused.empty(), "the search returns sound strategies: " + refused);
  planned.evaluation = evaluate(space.job(), planned.strategy, stages);
  const double priced = planned.evaluation.prediction.iteration_s;
  NEST_CHECK(planned.evaluation.fits, "plans that the search returns fit: " + planned.evaluation.misfit);
  NEST_CHECK(std::abs(priced - plan.leaf.time_s) <= kAgreement * priced,
             fmt::format("search and evaluation agree on a plan: {} s and {} s", plan.leaf.time_s, priced));
  return planned;
}

}  // namespace

std::int64_t device_limit(const Job& job, std::int64_t most_devices) {
  return most_devices > 0 ? std::min(most_devices, job.cluster.devices) : job.cluster.devices;
}

void refuse_empty(const PlanSpace& space, double keys) {
  if (keys > 0) return;
  throw InputError(
      fmt::format("the limits admit no plan at all: {} splits are legal on {} devices with a batch of {}; loosen "
                  "--set, or allow a batch that does not divide evenly (--set uneven_batch=1)",
                  space.splits().size(), space.devices(), space.job().run.global_batch));
}

PlanAnswer make_plan(const PlanRequest& request) {
  NEST_CHECK(request.job != nullptr, "a request names its job");
  const PlanSpace space(*request.job, request.limits, device_limit(*request.job, request.most_devices));
  PriceCache own;
  PriceCache& prices = request.prices != nullptr ? *request.prices : own;
  const SearchFindings findings = find_best(space, prices, request.order);
  refuse_empty(space, findings.keys);
  PlanAnswer answer;
  answer.objective = request.order.objective;
  answer.lower_bound = findings.lower_bound;
  answer.keys = findings.keys;
  answer.opened = findings.opened;
  answer.leaves = findings.leaves;
  answer.priced = prices.priced();
  answer.wall_s = findings.wall_s;
  answer.outcome = !findings.complete       ? PlanOutcome::limit
                   : findings.plans.empty() ? PlanOutcome::no_plan
                                            : PlanOutcome::optimal;
  for (const RankedPlan& plan : findings.plans) {
    answer.plans.push_back(reprice(space, plan));
    require_sound(to_plan(*request.job, answer.plans.back(), answer), *request.job);
  }
  return answer;
}

Plan to_plan(const Job& job, const PlannedStrategy& planned, const PlanAnswer& answer) {
  Plan plan;
  plan.model.name = job.model.architecture.name;
  plan.model.family = job.model.architecture.family;
  plan.cluster.name = job.cluster.name;
  plan.cluster.device = job.cluster.device.name;
  plan.cluster.devices = job.cluster.devices;
  plan.run = job.run;
  plan.strategy = planned.strategy;
  plan.stages = planned.evaluation.stages;
  plan.prediction = planned.evaluation.prediction;
  SearchRecord record;
  record.wall_s = answer.wall_s;
  record.optimal = answer.outcome == PlanOutcome::optimal;
  record.lower_bound_s = answer.lower_bound;
  if (answer.objective == PlanObjective::device_hours) {
    record.lower_bound_s /= real(planned.strategy.devices_spanned());
  }
  record.candidates = answer.keys;
  record.opened = answer.opened;
  record.planner = "nest";
  plan.search = record;
  return plan;
}

std::optional<ClosestPlan> closest_plan(const PlanRequest& request) {
  const Job& job = *request.job;
  const PlanSpace space(job, request.limits, device_limit(job, request.most_devices));
  int zero = 3, recompute = 2;
  while (zero > 0 && !space.limits().zero[at(zero)]) --zero;
  while (recompute > 0 && !space.limits().recompute[at(recompute)]) --recompute;
  std::optional<ClosestPlan> best;
  Key key;
  for (key.split = 0; key.split < static_cast<int>(space.splits().size()); ++key.split) {
    key.micro_batch = 0;  // the smallest
    if (space.micro_batches().empty() || !space.admits_pair(key)) continue;
    const StageMemoryModel memory(job, space.splits()[at(key.split)], space.micro_batches().front());
    for (key.stages = 1; key.stages <= space.most_stages(key); ++key.stages) {
      if (!space.limits().pp.admits(key.stages)) continue;
      key.schedule = 0;
      if (space.schedules().empty() || !space.admits_schedule(key)) continue;
      const auto plateau = space.plateau(key, space.most_replicas(key));
      if (!plateau) continue;
      key.replicas = *space.next_replicas(key, *plateau);
      const std::vector<std::int64_t> inner = space.inner_replicas(key);
      if (inner.empty()) continue;
      key.inner_replicas = inner.back();
      key.pitch = key.stages * key.inner_replicas * space.stage_devices(key);
      const Strategy strategy = space.strategy(key);
      const auto stages = even_stages(job, strategy, static_cast<Recompute>(recompute), zero);
      if (!refuse_strategy(job, strategy, stages).empty()) continue;
      std::int64_t needed = 0, worst = 0;
      // The first stages hold most in flight: usually they settle it.
      for (std::int64_t s = 0; s < key.stages; ++s) {
        const std::int64_t here = memory.estimate(strategy, stages[at(s)], s).needed;
        if (here > needed) worst = s;
        needed = std::max(needed, here);
        if (best && needed >= best->needed_bytes) break;
      }
      if (best && needed >= best->needed_bytes) continue;
      best = ClosestPlan{strategy, {}, worst, needed};
    }
  }
  if (best) {
    best->evaluation =
        evaluate(job, best->strategy, even_stages(job, best->strategy, static_cast<Recompute>(recompute), zero));
  }
  return best;
}

}  // namespace nest
