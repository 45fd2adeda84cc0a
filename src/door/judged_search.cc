#include "door/judged_search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "door/executed.h"
#include "door/plan_variants.h"
#include "door/slow_links.h"
#include "nest/interval.h"
#include "nest/simulate.h"
#include "plan/strategy_text.h"
#include "search/judge.h"
#include "search/kind.h"
#include "search/simplest.h"
#include "search/variants.h"
#include "search/workers.h"
#include "simulate/step_judge.h"

namespace nest {
namespace {

constexpr int kListed = 64;  // plans, at first
constexpr int kMostListed = 512;
constexpr std::size_t kRound = 16;  // plans that are executed before the best is looked at again
// The formula is too high where stages differ, seldom by more than this.
constexpr double kOverpriced = 1.1;
constexpr double kTorusOverpriced = 1.2;  // where it prices exchanges of all stages as if they met
constexpr std::ptrdiff_t kFinalists = 6;  // cut otherwise and executed with noise, and the formula's plan
constexpr int kCuts = 8;                  // times that whole layers of one of them are moved
constexpr std::int64_t kFewStages = 32;   // between any two of which layers of the best are moved
// Of small plans more are varied, in more ways, and such as are a little slower than the best: their variants may be faster
// than that.
constexpr std::ptrdiff_t kSmallFinalists = 16;
constexpr double kVariants = 1.6;
constexpr double kCutGain = 1.05;   // other cuts of a larger plan gain no more: 4.4 % was the most in 57 plans
constexpr double kRounding = 1e-9;  // of a bound
constexpr double kEqual = 5e-4;     // of a time: as search/why.cc
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct ExecutedPlan {
  Plan plan;
  double lockstep_s = 0;   // without noise, as bounds are
  double simulated_s = 0;  // the same, or with noise
  double value = 0;        // what is made least, of simulated_s
  std::int64_t runs = 0;   // with noise
  bool own = false;        // the formula's optimum
};

// Of the request's time, of which so much is over.
std::chrono::steady_clock::time_point end_of(const search::PlanRequest& request, double searched_s) {
  constexpr double kFar = 1e8;  // seconds
  const double left = request.search.time_limit_s - searched_s;
  if (!(left < kFar)) return std::chrono::steady_clock::time_point::max();
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                std::chrono::duration<double>(std::max(0.0, left)));
}

class JudgedSearch {
 public:
  JudgedSearch(const search::PlanRequest& request, double tie, search::PlanAnswer& found,
               const std::function<void(const Plan&)>& better)
      : request_(request),
        tie_(tie),
        found_(found),
        better_(better),
        space_(*request.job, request.limits, search::device_limit(*request.job, request.most_devices)),
        variants_(request_, space_),
        judge_(*request.job, {kInfinity, request.search.stop, end_of(request, found.wall_s)}),
        workers_(search::thread_count(request.search.threads)),
        searched_s_(found.wall_s),
        began_(std::chrono::steady_clock::now()) {}

  void run() {
    const Plan formula = found_.plans.front();
    std::vector<const Plan*> first_plans;
    first_plans.reserve(found_.plans.size());
    for (const Plan& plan : found_.plans) first_plans.push_back(&plan);
    execute(first_plans);
    plans_.front().own = true;
    double formula_s = plans_.front().simulated_s;
    const bool differs = std::abs(formula_s / formula.prediction.iteration_s - 1) > kWorth;
    for (const Plan& plan : found_.plans) considered_.push_back(plan.strategy);
    const bool shares = has_shared_links(request_.job->cluster);
    const bool waits = waits_on_torus(request_.job->cluster, formula.prediction) ||
                       (request_.job->cluster.torus && variants_.is_small(formula));
    if (differs || shares || waits) {
      tell();
      look_for_faster([&] {
        if (differs) {
          look_around(priced(formula));
        } else if (shares) {
          bound(kListed);  // what the formula prices too high
        } else {
          widen(priced(formula), kListed);
        }
      });
      formula_s = own_plan()->simulated_s;
    }
    prefer();
    keep_kinds();
    ExecutionRecord record;
    record.executed = executed_;
    record.bounded = bounded_;
    record.complete = complete_;
    if (!plans_.front().own) {
      record.formula = plan::strategy_text(formula.strategy);
      if (plans_.front().plan.strategy == formula.strategy) record.formula += " with other cuts";
      record.formula_s = formula.prediction.iteration_s;
      record.formula_simulated_s = formula_s;
    }
    SearchRecord search = *formula.search;
    search.wall_s = elapsed_s();
    search.opened = found_.opened;
    if (!record.formula.empty()) {  // what was proven, and preferred within the tie, is another plan
      search.optimal = false;
      search.tie = search.fastest_s = 0;
      search.fastest.clear();
      search.simpler.clear();
    }
    found_.plans.clear();
    for (ExecutedPlan& executed : plans_) {
      record.simulated_s = executed.simulated_s;
      record.least_s = least_ / value_of(executed.plan, 1);
      record.certain = record.least_s >= executed.lockstep_s * (1 - kWorth);
      record.runs = executed.runs;
      const double per_plan =
          value_of(formula, 1) / value_of(executed.plan, 1);  // device-hours: bounds are of the plan's
      executed.plan.search = search;
      executed.plan.search->lower_bound_s *= per_plan;
      executed.plan.search->execution = record;
      search::require_sound(executed.plan, *request_.job);
      found_.plans.push_back(std::move(executed.plan));
    }
  }

 private:
  // What ends it early, a limit or a plan that is too large to execute, leaves what was executed by then.
  template <class Look>
  void look_for_faster(const Look& look) {
    try {
      look();
      sort(plans_.end());
      shard_otherwise();
      cut_otherwise();
      settle();
      return;
    } catch (const SimulatorError&) {
    } catch (const InputError&) {}
    complete_ = false;
    sort(plans_.end());
  }

  std::vector<ExecutedPlan>::iterator own_plan() {
    return std::find_if(plans_.begin(), plans_.end(), [](const ExecutedPlan& plan) { return plan.own; });
  }

  // Since the search began.
  double elapsed_s() const {
    return searched_s_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  bool is_late() const {
    const std::atomic<bool>* const stop = request_.search.stop;
    return elapsed_s() > request_.search.time_limit_s || (stop != nullptr && stop->load());
  }

  double priced(const Plan& plan) const { return value_of(plan, plan.prediction.iteration_s); }

  double value_of(const Plan& plan, double seconds) const {
    const bool hours = request_.search.objective == PlanObjective::device_hours;
    return hours ? seconds * real(plan.strategy.devices_spanned()) : seconds;
  }

  // What a plan must take less than to be of use: the worst of as many kinds as were asked for.
  double limit() const {
    std::vector<const ExecutedPlan*> kinds;
    for (const ExecutedPlan& plan : plans_) {
      const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const ExecutedPlan* kind) {
        return search::same_kind(kind->plan.strategy, plan.plan.strategy);
      });
      if (same == kinds.end()) {
        kinds.push_back(&plan);
      } else if (plan.value < (*same)->value) {
        *same = &plan;
      }
    }
    if (kinds.size() < at(request_.search.top)) return kInfinity;
    std::nth_element(kinds.begin(), kinds.begin() + request_.search.top - 1, kinds.end(),
                     [](const ExecutedPlan* a, const ExecutedPlan* b) { return a->value < b->value; });
    return kinds[at(request_.search.top) - 1]->value;
  }

  // Executes plans side by side, but for those that take as much as `most` at least.
  void execute(std::span<const Plan* const> plans, double most = kInfinity) {
    std::vector<std::optional<double>> seconds(plans.size());
    workers_.for_each(plans.size(), [&](std::size_t k, int /*worker*/) {
      const Plan& plan = *plans[k];
      seconds[k] = judge_.seconds_below(plan.strategy, plan.stages, most * variety(plan) / value_of(plan, 1));
    });
    for (std::size_t k = 0; k < plans.size(); ++k) {
      ++(seconds[k] ? executed_ : bounded_);
      if (!seconds[k]) continue;
      plans_.push_back({*plans[k], *seconds[k], *seconds[k], value_of(*plans[k], *seconds[k]), 0, false});
    }
  }

  // How much slower than the best a plan may be and still have variants that are faster.
  double variety(const Plan& plan) const { return (variants_.is_small(plan) ? kVariants : 1) / (1 - kRounding); }

  // Those that are promising first, so that the bounds of more of the others exceed what they take. In rounds of a fixed
  // size, so that the answer does not depend on the threads.
  void consider(const std::vector<const Plan*>& plans) {
    struct Candidate {
      double expected = 0, least = 0;
      const Plan* plan = nullptr;
    };
    std::vector<Candidate> candidates(plans.size());
    workers_.for_each(plans.size(), [&](std::size_t k, int /*worker*/) {
      const Plan& plan = *plans[k];
      if (is_late()) return;  // nothing of this list is executed
      const simulate::StepEstimate estimate = judge_.estimate(plan.strategy, plan.stages);
      candidates[k] = {value_of(plan, estimate.seconds), value_of(plan, estimate.least_s) / variety(plan), &plan};
    });
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.expected < b.expected; });
    std::vector<const Plan*> round;
    for (std::size_t next = 0; next < candidates.size() && !is_late();) {
      const double most = limit();
      round.clear();
      for (; next < candidates.size() && round.size() < kRound; ++next) {
        if (candidates[next].least < most) {
          round.push_back(candidates[next].plan);
        } else {
          ++bounded_;
        }
      }
      execute(round, most);
      tell();
    }
  }

  // Of the best so far, where that or the bound is another one than was told before. The formula's counts as prefer() has it.
  void tell() {
    if (!better_) return;
    const auto less = [](const ExecutedPlan& a, const ExecutedPlan& b) { return a.value < b.value; };
    auto best = std::min_element(plans_.begin(), plans_.end(), less);
    const auto own = own_plan();
    if (own->value <= best->value * (1 + worth())) best = own;
    if (best->value >= told_ && least_ <= told_least_) return;
    told_ = best->value;
    told_least_ = least_;
    Plan plan = best->plan;
    plan.search = *found_.plans.front().search;
    plan.search->lower_bound_s *= value_of(found_.plans.front(), 1) / value_of(plan, 1);
    plan.search->wall_s = elapsed_s();
    ExecutionRecord& record = plan.search->execution.emplace();
    record.simulated_s = best->simulated_s;
    record.executed = executed_;
    record.bounded = bounded_;
    record.complete = false;
    record.least_s = least_ / value_of(plan, 1);
    better_(plan);
  }

  bool is_known(const Plan& plan) const {
    return std::any_of(considered_.begin(), considered_.end(),
                       [&](const Strategy& strategy) { return strategy == plan.strategy; });
  }

  void add_unknown(const Plan& plan, std::vector<const Plan*>& fresh) {
    if (is_known(plan)) return;
    considered_.push_back(plan.strategy);
    fresh.push_back(&plan);
  }

  // Considers what the formula prices below the best executed plans and its own, or little above.
  void widen(double formula, int listed) {
    if (is_late()) return;
    search::PlanRequest more = request_;
    more.judged = false;  // those that are taken are
    more.search.listing = search::Listing::keys;
    more.search.top = listed;
    more.search.progress = nullptr;
    more.search.first = false;
    more.search.time_limit_s -= elapsed_s();
    const double overpriced = !request_.job->cluster.torus               ? kOverpriced
                              : variants_.is_small(found_.plans.front()) ? kVariants
                                                                         : kTorusOverpriced;
    const auto most = [&] { return std::max(limit(), formula) * overpriced; };
    more.search.known_score = most();
    const search::PlanAnswer answer = search::make_plan(more);
    found_.opened += answer.opened;
    std::vector<const Plan*> fresh;
    fresh.reserve(answer.plans.size());
    for (const Plan& plan : answer.plans) add_unknown(plan, fresh);
    consider(fresh);
    // All were listed, or the last of them is priced above what is executed by now.
    complete_ = answer.outcome != PlanOutcome::limit && !is_late() &&
                (static_cast<int>(answer.plans.size()) < listed || priced(answer.plans.back()) >= most());
  }

  void sort(std::vector<ExecutedPlan>::iterator end) {
    std::stable_sort(plans_.begin(), end,
                     [](const ExecutedPlan& a, const ExecutedPlan& b) { return a.value < b.value; });
  }

  // What the formula likes, what could be fastest, and what the formula likes a little less.
  void look_around(double formula) {
    complete_ = false;
    widen(formula, kListed);
    if (!bound(kListed) && !complete_) widen(formula, kMostListed);
  }

  // Considers keys by what their plans take at least. Whether none is left out that could be faster by what counts.
  bool bound(int listed) {
    if (is_late()) return false;
    search::PlanRequest more = request_;
    more.judged = false;
    more.search.top = listed;
    more.search.progress = nullptr;
    more.search.first = false;
    more.search.time_limit_s -= elapsed_s();
    more.search.known_score = limit() * (1 - kWorth);
    const search::BoundedKeys keys = search::bound_plans(more);
    found_.opened += keys.opened;
    least_ = keys.least;
    std::vector<Plan> plans;
    plans.reserve(keys.plans.size());
    for (const search::BoundedPlan& bounded : keys.plans) plans.push_back(variants_.likely_sharded(bounded.plan));
    std::vector<const Plan*> fresh;
    fresh.reserve(plans.size());
    for (const Plan& plan : plans) add_unknown(plan, fresh);
    consider(fresh);
    return keys.complete && !is_late() && keys.next >= limit() * (1 - kWorth);
  }

  // Plans that by the formula would be faster than the best is, and are not, with their state sharded otherwise: what they
  // gather in every pass may be what takes longer.
  void shard_otherwise() {
    const double best = plans_.front().value;
    std::vector<const Plan*> promised;
    for (const ExecutedPlan& each : plans_) {
      if (each.value > best && priced(each.plan) < best) promised.push_back(&each.plan);
    }
    std::stable_sort(promised.begin(), promised.end(),
                     [&](const Plan* a, const Plan* b) { return priced(*a) < priced(*b); });
    promised.resize(std::min(promised.size(), kRound));
    std::vector<Plan> others;
    for (const Plan* plan : promised) {
      if (is_late()) return;
      for (Plan& other : variants_.sharded_otherwise(*plan)) others.push_back(std::move(other));
    }
    std::vector<const Plan*> fresh;
    fresh.reserve(others.size());
    for (const Plan& other : others) fresh.push_back(&other);
    consider(fresh);
    sort(plans_.end());
  }

  // The best plans, with variants in their place as long as those are faster.
  void cut_otherwise() {
    const auto size = std::ssize(plans_);
    for (std::ptrdiff_t k = 0; k < size && !is_late(); ++k) {
      const bool small = variants_.is_small(plans_[at(k)].plan);
      if (k >= (small ? kSmallFinalists : kFinalists)) break;
      if (!small && plans_[at(k)].value > kCutGain * plans_.front().value) break;
      vary(at(k), small ? search::MovedTo::anywhere : search::MovedTo::ends);
    }
    sort(plans_.end());
    if (plans_.front().plan.strategy.pp <= kFewStages) vary(0, search::MovedTo::anywhere);
    sort(plans_.end());
  }

  void vary(std::size_t k, search::MovedTo where) {
    for (int cuts = 0; cuts < kCuts && !is_late(); ++cuts) {
      if (!take_faster(k, variants_.of(plans_[k].plan, where))) break;
      tell();
    }
  }

  // Executes those that may be faster than plan k, the promising first, and puts the fastest in its place, the formula's
  // optimum beside it.
  bool take_faster(std::size_t k, const std::vector<Plan>& others) {
    std::vector<simulate::StepEstimate> estimates(others.size());
    workers_.for_each(others.size(), [&](std::size_t j, int /*worker*/) {
      estimates[j] = judge_.estimate(others[j].strategy, others[j].stages);
    });
    std::vector<std::size_t> order(others.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return estimates[a].seconds < estimates[b].seconds; });
    std::vector<double> seconds(others.size(), kInfinity);
    const double enough = plans_[k].simulated_s * (1 - kEqual);
    for (std::size_t begin = 0; begin < order.size() && !is_late(); begin += kRound) {
      const double most = std::min(enough, *std::min_element(seconds.begin(), seconds.end()));
      workers_.for_each(std::min(kRound, order.size() - begin), [&](std::size_t i, int /*worker*/) {
        const std::size_t j = order[begin + i];
        if (estimates[j].least_s >= most) return;
        seconds[j] = judge_.seconds_below(others[j].strategy, others[j].stages, most).value_or(kInfinity);
      });
    }
    executed_ += std::count_if(seconds.begin(), seconds.end(), [](double each) { return each < kInfinity; });
    const auto fastest = std::min_element(seconds.begin(), seconds.end());
    if (fastest == seconds.end() || *fastest >= enough) return false;
    const Plan& other = others[static_cast<std::size_t>(fastest - seconds.begin())];
    const ExecutedPlan taken{other, *fastest, *fastest, value_of(other, *fastest), 0, false};
    if (plans_[k].own) plans_.push_back(plans_[k]);
    plans_[k] = taken;
    return true;
  }

  // Executes the best, and the formula's, again with noise: in lockstep replicas that share a link wait for each other
  // longer than they do when they drift apart. Where that is too much to execute, all stays as it is.
  void settle() {
    const auto own = [](const ExecutedPlan& plan) { return plan.own; };
    std::stable_partition(plans_.begin() + std::min<std::ptrdiff_t>(kFinalists, std::ssize(plans_)), plans_.end(), own);
    const auto end = plans_.begin() + std::min<std::ptrdiff_t>(kFinalists + 1, std::ssize(plans_));
    const auto is_executed = [&](const ExecutedPlan& plan) { return is_noise_executed(*request_.job, plan.plan); };
    if (!std::all_of(plans_.begin(), end, is_executed) || is_late()) return;
    std::vector<double> factors(static_cast<std::size_t>(end - plans_.begin()));
    workers_.for_each(factors.size(), [&](std::size_t k, int /*worker*/) {
      factors[k] = noise_factor(judge_, *request_.job, plans_[k].plan);
    });
    for (std::size_t k = 0; k < factors.size(); ++k) {
      plans_[k].simulated_s *= factors[k];
      plans_[k].value *= factors[k];
      plans_[k].runs = kNoisyRuns;
    }
    sort(end);
  }

  // How much faster another plan than the formula's has to be.
  double worth() const { return tie_ > 0 ? std::max(tie_, kWorth) : 0; }

  // The formula's plan stays where it is not worth leaving it; else the simplest within the tie comes first.
  void prefer() {
    const auto own = own_plan();
    if (own->value <= plans_.front().value * (1 + worth())) {
      std::rotate(plans_.begin(), own, own + 1);
    } else {
      put_simplest_first();
    }
  }

  void put_simplest_first() {
    const double most = plans_.front().value * (1 + tie_);
    const std::int64_t devices = search::device_limit(*request_.job, request_.most_devices);
    const auto oddness = [&](const Plan& plan) {
      unsigned set = 0;
      for (const search::Oddity& oddity : search::oddities(request_.search.objective)) {
        set = 2 * set + (oddity.has(*request_.job, devices, plan) ? 1 : 0);
      }
      return set;
    };
    auto simplest = plans_.begin();
    for (auto it = plans_.begin(); it != plans_.end() && it->value <= most; ++it) {
      if (oddness(it->plan) < oddness(simplest->plan)) simplest = it;
    }
    std::rotate(plans_.begin(), simplest, simplest + 1);
  }

  void keep_kinds() {
    std::vector<ExecutedPlan> kinds;
    for (ExecutedPlan& plan : plans_) {
      const bool known = std::any_of(kinds.begin(), kinds.end(), [&](const ExecutedPlan& kind) {
        return search::same_kind(kind.plan.strategy, plan.plan.strategy);
      });
      if (!known && kinds.size() < at(request_.search.top)) kinds.push_back(std::move(plan));
    }
    plans_ = std::move(kinds);
  }

  const search::PlanRequest& request_;
  double tie_;
  search::PlanAnswer& found_;
  const std::function<void(const Plan&)>& better_;
  double told_ = kInfinity, told_least_ = 0;  // what the last plan took that was told of, and the bound then
  search::PlanSpace space_;
  PlanVariants variants_;
  simulate::StepJudge judge_;
  search::Workers workers_;
  std::vector<ExecutedPlan> plans_;
  std::vector<Strategy> considered_;
  bool complete_ = true;
  double least_ = 0;  // of all plans, seconds or device-seconds; 0: not known
  double searched_s_;
  std::chrono::steady_clock::time_point began_;
  std::int64_t executed_ = 0, bounded_ = 0;
};

}  // namespace

void judge_by_execution(const search::PlanRequest& request, double tie, search::PlanAnswer& found,
                        const std::function<void(const Plan&)>& better) {
  if (found.plans.empty()) return;
  try {
    JudgedSearch(request, tie, found, better).run();
  } catch (const SimulatorError&) {
    // Stopped: the formula's answer stands.
  } catch (const InputError&) {
    // Too large to execute.
  }
}

void judge_by_execution(const search::PlanRequest& request, const Plan& best, std::vector<WhyNot>& whys,
                        std::chrono::steady_clock::time_point end) {
  if (!best.search || !best.search->execution) return;
  const double best_s = best.search->execution->simulated_s;
  if (std::abs(best_s / best.prediction.iteration_s - 1) <= kWorth) return;
  simulate::StepJudge judge(*request.job, {kInfinity, request.search.stop, end});
  const bool hours = request.search.objective == PlanObjective::device_hours;
  try {
    for (WhyNot& why : whys) {
      if (!why.plan || why.outcome == WhyOutcome::unknown) continue;
      const double seconds = judge.seconds(why.plan->strategy, why.plan->stages);
      const double devices =
          hours ? real(why.plan->strategy.devices_spanned()) / real(best.strategy.devices_spanned()) : 1;
      why.excess = std::max(0.0, seconds * devices / best_s - 1);
      why.outcome = why.excess > kEqual ? WhyOutcome::slower : WhyOutcome::not_worse;
      why.slower = probability_faster(best.prediction, why.plan->prediction, seconds / best_s);
    }
  } catch (const SimulatorError&) {
    // Stopped: what is left stays as the formula has it.
  } catch (const InputError&) {
    // Too large to execute.
  }
}

}  // namespace nest
