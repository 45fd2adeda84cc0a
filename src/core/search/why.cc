#include "search/why.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/units.h"
#include "nest/interval.h"
#include "plan/dimensions.h"
#include "search/first_plan.h"

namespace nest::search {
namespace {

struct Variation {
  std::string name;
  plan::PlanLimits limits;
  std::string dimension;  // that is overruled, as `differences` calls it
};

plan::Limit exactly(std::int64_t value) { return {value, value, {value}}; }

void vary_degrees(const plan::PlanLimits& limits, const Strategy& best, std::vector<Variation>& list) {
  enum class Way : std::uint8_t { half, twice };
  const auto vary = [&](const char* name, Way way) {
    const plan::PlanDimension& row = *plan::find_dimension(name);
    const std::int64_t now = row.of_strategy(best), value = way == Way::half ? now / 2 : now * 2;
    if (value < 1 || !(limits.*row.limit).admits(value)) return;
    Variation variation{fmt::format("{} {}", row.noun, value), limits, row.name};
    variation.limits.*row.limit = exactly(value);
    list.push_back(std::move(variation));
  };
  vary("tp", Way::half);
  vary("tp", Way::twice);
  vary("pp", Way::half);
  vary("pp", Way::twice);
  vary("cp", Way::half);
  vary("ep", Way::half);
  vary("mbs", Way::twice);
}

std::vector<Variation> variations(const plan::PlanLimits& limits, const Plan& best) {
  std::vector<Variation> list;
  const Strategy& strategy = best.strategy;
  vary_degrees(limits, strategy, list);
  const auto add = [&](const char* name) -> plan::PlanLimits& {
    list.push_back({name, limits, {}});
    return list.back().limits;
  };
  if (strategy.split.sp && limits.sp[0]) add("no sequence parallelism").sp = {true, false};
  if (strategy.virtual_stages > 1 && limits.admits(Schedule::one_f_one_b)) {
    plan::PlanLimits& plain = add("no interleaving");
    plain.schedule = {};
    plain.schedule[at(Schedule::one_f_one_b)] = true;
    plain.more_schedules = false;
  }
  const auto& stages = best.stages;
  const auto any = [&](const auto& test) { return std::any_of(stages.begin(), stages.end(), test); };
  if (limits.recompute[0] && any([](const StagePlan& s) { return s.recompute != Recompute::none; })) {
    add("no recomputation").recompute = {true, false, false};
  }
  if (strategy.split.offload != 0 && limits.offload[0]) {
    plan::PlanLimits& here = add("no activations on the host");
    here.offload[1] = false;
    here.offload_only.clear();
  }
  if (limits.zero[3] && !any([](const StagePlan& s) { return s.zero == 3; })) {
    plan::PlanLimits& sharded = add("ZeRO 3, no pipeline");
    sharded.zero = {false, false, false, true};
    sharded.pp = exactly(1);
    if (!limits.pp.admits(1)) list.pop_back();
  }
  if (strategy.pp > 1 && strategy.dp_inner != strategy.dp) {
    plan::PlanLimits& usual = add("Megatron's default rank order");
    usual.replicas_together = true;
    usual.pitch = false;
  }
  return list;
}

// "pp=16 mbs=2": what else is different in the best plan of a variation.
std::string differences(const Strategy& best, const Strategy& other, const std::string& overruled) {
  std::string text;
  for (const plan::PlanDimension& row : plan::plan_dimensions()) {
    if (row.noun == nullptr || overruled == row.name) continue;
    const std::int64_t after = row.of_strategy(other);
    if (row.of_strategy(best) != after) text += fmt::format("{}{}={}", text.empty() ? "" : " ", row.name, after);
  }
  return text;
}

// The terms of the time that grow most, together with what is recomputed.
std::string where_it_goes(const Prediction::Breakdown& best, const Prediction::Breakdown& other) {
  struct Term {
    const char* name;
    double more_s;
  };
  std::vector<Term> terms;
  terms.reserve(kBreakdownParts.size());
  for (const BreakdownPart& part : kBreakdownParts) {
    terms.push_back({part.name, other.*part.seconds - best.*part.seconds});
  }
  std::stable_sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.more_s > b.more_s; });
  std::string text;
  for (std::size_t k = 0; k < 2; ++k) {
    if (terms[k].more_s <= 0 || terms[k].more_s < 0.3 * terms[0].more_s) break;
    text += fmt::format("{}{} +{:.3f} s", text.empty() ? "" : ", ", terms[k].name, terms[k].more_s);
  }
  return text;
}

std::string reason_for(const PlanRequest& request, const Plan& best, const WhyNot& why, const std::string& overruled) {
  if (why.outcome == WhyOutcome::unknown) return "not searched to the end";
  if (why.outcome == WhyOutcome::no_plan) {
    const std::optional<ClosestPlan> closest = closest_plan(request);
    if (!closest) return {};
    return fmt::format("stage {} needs {} of {} at least", closest->stage, format_bytes(closest->needed_bytes),
                       format_bytes(request.job->cluster.device.memory_bytes));
  }
  const Plan& other = *why.plan;
  const std::string changes = differences(best.strategy, other.strategy, overruled);
  const std::string terms = where_it_goes(best.prediction.breakdown_s, other.prediction.breakdown_s);
  return changes + (changes.empty() || terms.empty() ? "" : "; ") + terms;
}

}  // namespace

std::vector<WhyNot> explain_plan(const PlanRequest& request, const PlanAnswer& answer, std::int64_t most_opened,
                                 const Deadline& end) {
  std::vector<WhyNot> result;
  if (answer.plans.empty()) return result;
  const double best = score_of(answer.plans.front(), request.search.objective);
  for (const Variation& variation : variations(request.limits, answer.plans.front())) {
    if (end.has_passed()) break;
    PlanRequest other = request;
    other.limits = variation.limits;
    other.search.top = 1;
    other.search.time_limit_s = end.left_s();
    other.search.most_opened = most_opened;
    other.search.first = false;
    other.search.progress = nullptr;
    WhyNot why;
    why.name = variation.name;
    PlanAnswer found;
    try {
      found = make_plan(other);
    } catch (const InputError&) {
      continue;  // not a plan for this model, batch or cluster
    }
    if (!found.plans.empty()) why.plan = std::move(found.plans.front());
    if (found.outcome == PlanOutcome::no_plan) {
      why.outcome = WhyOutcome::no_plan;
    } else if (found.outcome == PlanOutcome::limit) {
      why.excess = std::max(0.0, found.lower_bound / best - 1);
      why.outcome = WhyOutcome::unknown;
    } else {
      why.excess = score_of(*why.plan, request.search.objective) / best - 1;
      why.outcome = why.excess > 5e-4 ? WhyOutcome::slower : WhyOutcome::not_worse;
      why.slower = probability_faster(answer.plans.front().prediction, why.plan->prediction);
    }
    why.reason = reason_for(other, answer.plans.front(), why, variation.dimension);
    result.push_back(std::move(why));
  }
  return result;
}

}  // namespace nest::search
