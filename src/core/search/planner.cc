#include "search/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "nest/option.h"
#include "search/first_plan.h"
#include "search/judge.h"
#include "search/kind.h"

namespace nest::search {
namespace {

// The search's value must be evaluate()'s, and the plan must fit.
Plan reprice(const PlanSpace& space, const RankedPlan& ranked) {
  constexpr double kAgreement = 1e-6;
  const Strategy strategy = space.strategy(ranked.key);
  const std::vector<StagePlan> stages = space.stages(strategy, ranked.leaf.cuts, ranked.leaf.options);
  const std::string refused = cost::refuse_strategy(space.job(), strategy, stages);
  NEST_CHECK(refused.empty(), "the search returns sound strategies: " + refused);
  Plan plan = cost::evaluate_deferring(space.job(), strategy, stages, space.limits().defer_head);
  const double priced = plan.prediction.iteration_s;
  NEST_CHECK(plan.fits, "plans that the search returns fit: " + plan.misfit);
  NEST_CHECK(std::abs(priced - ranked.leaf.time_s) <= kAgreement * priced,
             fmt::format("search and evaluation agree on a plan: {} s and {} s", ranked.leaf.time_s, priced));
  return plan;
}

SearchRecord record_of(const PlanAnswer& answer, const Strategy& strategy) {
  SearchRecord record;
  record.wall_s = answer.wall_s;
  record.optimal = answer.outcome == PlanOutcome::optimal;
  record.lower_bound_s = answer.lower_bound;
  if (answer.objective == PlanObjective::device_hours) {
    record.lower_bound_s /= static_cast<double>(strategy.devices_spanned());
  }
  record.candidates = answer.keys;
  record.opened = answer.opened;
  record.planner = "nest";
  return record;
}

// The space in which the first plans of most people lie: small, and its best plan is seldom far from the best of all.
plan::PlanLimits usual_limits() {
  plan::PlanLimits limits;
  limits.tp.only = {1, 2, 4, 8};
  limits.cp.only = limits.etp.only = limits.micro_batch.only = {1};
  limits.pp.only = {1, 2, 4, 8, 16, 32, 64};
  limits.recompute = {};
  for (const Recompute kind : {Recompute::none, Recompute::selective, Recompute::full}) {
    limits.recompute[static_cast<std::size_t>(kind)] = true;
  }
  limits.uniform = true;
  return limits;
}

// The best of them, if it is found in so many seconds.
std::optional<Plan> best_usual(const PlanRequest& request, PriceCache& prices, double most_s) {
  PlanRequest usual = request;
  usual.incumbent = nullptr;
  usual.prices = &prices;
  usual.judged = false;
  plan::narrow(usual.limits, usual_limits());
  if (plan::is_empty(usual.limits)) return std::nullopt;
  usual.search.top = 1;
  usual.search.progress = nullptr;
  usual.search.first = false;
  usual.search.time_limit_s = most_s;
  try {
    PlanAnswer answer = make_plan(usual);
    if (!answer.plans.empty()) return std::move(answer.plans.front());
  } catch (const InputError&) {
    // No plan is usual here.
  }
  return std::nullopt;
}

constexpr double kUsual_s = 0.5;      // more than that it seldom takes
constexpr double kUsualShare = 0.15;  // of a time limit that ends the search

// Tells whoever waits for a plan of plans on the way: those of the search, those of rules, and where that goes on for a while
// the best usual one, which is found in a fraction of the time. The search knows nothing of the last.
class Narrator {
 public:
  Narrator(const PlanRequest& request, const PlanSpace& space, PriceCache& prices)
      : request_(request), space_(space), prices_(prices) {}

  void tell(const SoFar& now) {
    if (!looked_ && now.elapsed_s > kPatience_s) {
      looked_ = true;
      usual_ = best_usual(request_, prices_, std::min(kUsual_s, request_.search.time_limit_s - now.elapsed_s));
    }
    const double score = std::min(now.score, usual_ ? score_of(*usual_, objective()) : now.score);
    if (!std::isfinite(score)) return;
    if (score >= score_ && now.lower_bound < lower_bound_ + kCloser * score) return;
    score_ = score;
    lower_bound_ = now.lower_bound;
    Plan plan = score < now.score ? *usual_ : now.ranked != nullptr ? reprice(space_, *now.ranked) : *now.first;
    PlanAnswer answer;
    answer.objective = objective();
    answer.lower_bound = now.lower_bound;
    answer.opened = now.opened;
    answer.wall_s = now.elapsed_s;
    plan.search = record_of(answer, plan.strategy);
    request_.incumbent(plan);
  }

 private:
  static constexpr double kPatience_s = 0.2;  // most searches are over by then
  static constexpr double kCloser = 0.003;    // of the score: what a bound has to come closer by to be worth a word

  PlanObjective objective() const { return request_.search.objective; }

  const PlanRequest& request_;
  const PlanSpace& space_;
  PriceCache& prices_;
  std::optional<Plan> usual_;
  bool looked_ = false;
  double score_ = std::numeric_limits<double>::infinity(), lower_bound_ = 0;  // that were told last
};

}  // namespace

std::int64_t device_limit(const cost::Job& job, std::int64_t most_devices) {
  return most_devices > 0 ? std::min(most_devices, job.cluster.devices) : job.cluster.devices;
}

void refuse_empty(const PlanSpace& space, double keys) {
  if (keys > 0) return;
  throw InputError(
      fmt::format("the limits admit no plan at all: {} splits are legal on {} devices with a batch of {}; loosen "
                  "{}, or allow a batch that does not divide evenly ({} uneven_batch=1)",
                  space.splits().size(), space.devices(), space.job().run.global_batch, option("set"), option("set")));
}

PlanAnswer make_plan(const PlanRequest& request) {
  NEST_CHECK(request.job != nullptr, "a request names its job");
  const Deadline deadline(request.search.time_limit_s, request.search.stop);
  const PlanSpace space(*request.job, request.limits, device_limit(*request.job, request.most_devices));
  PriceCache own(*request.job, request.limits);
  const bool given = request.prices != nullptr && request.prices->covers(request.limits);
  PriceCache& prices = given ? *request.prices : own;
  NEST_CHECK(&prices.job() == request.job, "prices are those of the request's job");
  SearchSettings settings = request.search;
  // A search that is stopped may have a poor plan, or one of rules.
  const bool limited = request.search.first && std::isfinite(request.search.time_limit_s);
  const double usual_s = limited ? std::min(kUsual_s, kUsualShare * request.search.time_limit_s) : 0;
  settings.time_limit_s = deadline.left_s() - usual_s;
  Narrator narrator(request, space, prices);
  if (request.incumbent) settings.so_far = [&](const SoFar& now) { narrator.tell(now); };
  const SearchFindings findings = find_best(space, prices, settings);
  refuse_empty(space, findings.keys);
  PlanAnswer answer;
  answer.objective = request.search.objective;
  answer.lower_bound = findings.lower_bound;
  answer.keys = findings.keys;
  answer.opened = findings.opened;
  answer.leaves = findings.leaves;
  answer.priced = prices.priced();
  answer.wall_s = findings.wall_s;
  answer.outcome = !findings.complete       ? PlanOutcome::limit
                   : findings.plans.empty() ? PlanOutcome::no_plan
                                            : PlanOutcome::optimal;
  if (findings.first) answer.plans.push_back(*findings.first);
  for (const RankedPlan& ranked : findings.plans) {
    if (std::ssize(answer.plans) < std::max(1, request.search.top)) answer.plans.push_back(reprice(space, ranked));
  }
  if (limited && !findings.complete) {
    std::optional<Plan> usual = best_usual(request, prices, deadline.left_s());
    const auto score = [&](const Plan& plan) { return score_of(plan, request.search.objective); };
    if (usual && (answer.plans.empty() || score(*usual) < score(answer.plans.front()))) {
      std::erase_if(answer.plans, [&](const Plan& plan) { return same_kind(plan.strategy, usual->strategy); });
      answer.plans.insert(answer.plans.begin(), std::move(*usual));
      answer.plans.resize(std::min(answer.plans.size(), at(std::max(1, request.search.top))));
    }
    answer.wall_s = std::max(answer.wall_s, request.search.time_limit_s - deadline.left_s());
  }
  for (Plan& plan : answer.plans) {
    plan.search = record_of(answer, plan.strategy);
    if (request.judged) require_sound(plan, *request.job);
  }
  return answer;
}

BoundedKeys bound_plans(const PlanRequest& request) {
  cost::Job least = *request.job;
  least.law = schedule::Law::least;
  const PlanSpace space(least, request.limits, device_limit(*request.job, request.most_devices));
  PriceCache prices(least, request.limits);
  SearchSettings settings = request.search;
  settings.listing = Listing::keys;
  const SearchFindings findings = find_best(space, prices, settings);
  BoundedKeys keys;
  keys.complete = findings.complete;
  keys.opened = findings.opened;
  keys.least = findings.lower_bound;
  keys.next = settings.known_score;
  if (!findings.complete) keys.next = findings.lower_bound;
  if (std::ssize(findings.plans) >= settings.top) keys.next = std::min(keys.next, findings.plans.back().score);
  for (const RankedPlan& ranked : findings.plans) {
    const Strategy strategy = space.strategy(ranked.key);
    Plan plan =
        cost::evaluate_deferring(*request.job, strategy, space.stages(strategy, ranked.leaf.cuts, ranked.leaf.options),
                                 space.limits().defer_head);
    keys.plans.push_back({ranked.score, std::move(plan)});
    if (request.judged) require_sound(keys.plans.back().plan, *request.job);
  }
  return keys;
}

std::optional<ClosestPlan> closest_plan(const PlanRequest& request) {
  const cost::Job& job = *request.job;
  const Deadline deadline(request.search.time_limit_s, request.search.stop);
  const PlanSpace space(job, request.limits, device_limit(job, request.most_devices));
  int zero = 3;
  while (zero > 0 && !space.limits().zero[at(zero)]) --zero;
  // What spares most is last in the list; how many layers at once a checkpoint covers is not worth a plan of its own.
  Recomputation recompute = Recompute::none;
  for (const Recomputation& listed : space.recomputations()) {
    if (listed.kind != Recompute::uniform) recompute = listed;
  }
  std::optional<ClosestPlan> best;
  Key key;
  for (key.split = 0; key.split < static_cast<int>(space.splits().size()) && !deadline.has_passed(); ++key.split) {
    key.micro_batch = 0;  // the smallest
    if (space.micro_batches().empty() || !space.admits_pair(key)) continue;
    StagePlan like;
    like.recompute = recompute;
    const cost::StageMemoryModel memory(job, space.splits()[at(key.split)], space.micro_batches().front(),
                                        cost::treatments_of({like}));
    for (key.stages = 1; key.stages <= space.most_stages(key) && !deadline.has_passed(); ++key.stages) {
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
      const auto stages = cost::even_stages(job, strategy, recompute, zero);
      if (!cost::refuse_strategy(job, strategy, stages).empty()) continue;
      std::int64_t needed = 0, worst = 0;
      // The first stages hold most in flight: usually they settle it.
      for (std::int64_t s = 0; s < key.stages; ++s) {
        const std::int64_t here = memory.estimate(strategy, stages[at(s)], s).needed;
        if (here > needed) worst = s;
        needed = std::max(needed, here);
        if (best && needed >= best->needed_bytes) break;
      }
      if (best && needed >= best->needed_bytes) continue;
      best.emplace().plan.strategy = strategy;
      best->stage = worst;
      best->needed_bytes = needed;
    }
  }
  if (best) {
    const Strategy strategy = best->plan.strategy;
    best->plan = cost::evaluate_deferring(job, strategy, cost::even_stages(job, strategy, recompute, zero),
                                          space.limits().defer_head);
  }
  return best;
}

}  // namespace nest::search
