#include "planner/why.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace nest {
namespace {

struct Variation {
  std::string name;
  PlanLimits limits;
};

Limit exactly(std::int64_t value) { return {value, value, {value}}; }

void vary_degrees(const PlanLimits& limits, const Strategy& best, std::vector<Variation>& list) {
  const auto fix = [&](const char* name, Limit PlanLimits::*field, std::int64_t value) {
    if (value < 1 || !(limits.*field).admits(value)) return;
    Variation variation{fmt::format("{} {}", name, value), limits};
    variation.limits.*field = exactly(value);
    list.push_back(std::move(variation));
  };
  fix("tensor", &PlanLimits::tp, best.split.tp / 2);
  fix("tensor", &PlanLimits::tp, best.split.tp * 2);
  fix("pipeline", &PlanLimits::pp, best.pp / 2);
  fix("pipeline", &PlanLimits::pp, best.pp * 2);
  if (best.split.cp > 1) fix("context", &PlanLimits::cp, best.split.cp / 2);
  if (best.split.ep > 1) fix("expert", &PlanLimits::ep, best.split.ep / 2);
  fix("micro-batch", &PlanLimits::micro_batch, best.micro_batch * 2);
}

std::vector<Variation> variations(const PlanLimits& limits, const PlannedStrategy& best) {
  std::vector<Variation> list;
  const Strategy& strategy = best.strategy;
  vary_degrees(limits, strategy, list);
  const auto add = [&](const char* name) -> PlanLimits& {
    list.push_back({name, limits});
    return list.back().limits;
  };
  if (strategy.split.sp && limits.sp[0]) add("no sequence parallelism").sp = {true, false};
  if (strategy.virtual_stages > 1 && limits.one_f_one_b) add("no interleaving").interleaved = false;
  const auto& stages = best.evaluation.stages;
  const auto any = [&](const auto& test) { return std::any_of(stages.begin(), stages.end(), test); };
  if (limits.recompute[0] && any([](const StagePlan& s) { return s.recompute != Recompute::none; })) {
    add("no recomputation").recompute = {true, false, false};
  }
  if (limits.zero[3] && !any([](const StagePlan& s) { return s.zero == 3; })) {
    PlanLimits& sharded = add("ZeRO 3, no pipeline");
    sharded.zero = {false, false, false, true};
    sharded.pp = exactly(1);
    if (!limits.pp.admits(1)) list.pop_back();
  }
  if (strategy.pp > 1 && strategy.dp_inner != strategy.dp) {
    PlanLimits& usual = add("Megatron's default rank order");
    usual.replicas_together = true;
    usual.pitch = false;
  }
  return list;
}

double score_of(const PlanRequest& request, const PlannedStrategy& plan) {
  const double time = plan.evaluation.prediction.iteration_s;
  if (request.order.objective == PlanObjective::time) return time;
  return time * static_cast<double>(plan.strategy.devices_spanned());
}

}  // namespace

std::vector<WhyNot> explain_plan(const PlanRequest& request, const PlanAnswer& answer, double seconds) {
  std::vector<WhyNot> result;
  if (answer.plans.empty()) return result;
  const double best = score_of(request, answer.plans.front());
  for (const Variation& variation : variations(request.limits, answer.plans.front())) {
    PlanRequest other = request;
    other.limits = variation.limits;
    other.order.top = 1;
    other.order.time_limit_s = seconds;
    other.order.progress = nullptr;
    WhyNot why;
    why.name = variation.name;
    try {
      why.answer = make_plan(other);
    } catch (const InputError&) {
      continue;  // not a plan for this model, batch or cluster
    }
    if (why.answer.outcome == PlanOutcome::no_plan) {
      why.outcome = WhyOutcome::no_plan;
    } else if (why.answer.outcome == PlanOutcome::limit) {
      why.excess = std::max(0.0, why.answer.lower_bound / best - 1);
      why.outcome = WhyOutcome::unknown;
    } else {
      why.excess = score_of(request, why.answer.plans.front()) / best - 1;
      why.outcome = why.excess > 5e-4 ? WhyOutcome::slower : WhyOutcome::not_worse;
    }
    result.push_back(std::move(why));
  }
  return result;
}

}  // namespace nest
