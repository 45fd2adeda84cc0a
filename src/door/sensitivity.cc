#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "cost/evaluate.h"
#include "door/executed.h"
#include "door/job_data.h"
#include "door/search_limits.h"
#include "nest/option.h"
#include "nest/search.h"
#include "plan/strategy_text.h"
#include "search/workers.h"
#include "sweep/resources.h"

namespace nest {
namespace {

constexpr double kNoticed = 1e-4;  // of a step, from which on another plan is told

class Sensitivities {
 public:
  Sensitivities(const TrainingJob& job, const SearchOptions& options, double percent)
      : job_(job),
        options_(options),
        end_(options.time_limit_s > 0 ? options.time_limit_s : std::numeric_limits<double>::infinity(), options.stop),
        share_(percent / 100) {
    // The optimum itself: plans that are preferred within a tie would make steps of their own.
    options_.tie_percent = 0;
    options_.why = options_.explain = false;
    options_.top = 1;
    options_.progress = nullptr;
    options_.incumbent = nullptr;
  }

  std::optional<Sensitivity> find() {
    Answer answer = find_plan(job_, options_);
    if (answer.plans.empty() || end_.has_passed()) return std::nullopt;
    base_ = std::move(answer.plans.front());
    offload_ = unwrap(answer.job).run.optimizer_offload;
    noisy_ = base_.executed.has_value();
    Sensitivity result;
    result.percent = 100 * share_;
    result.judge = options_.judge;
    const std::optional<double> base_s = seconds(unwrap(answer.job), base_);
    if (!base_s) {  // too large to execute: the formula for all
      result.judge = options_.judge = PlanJudge::formula;
    }
    result.step_s = step_s_ = base_s.value_or(base_.prediction.iteration_s);
    result.strategy = plan::strategy_text(base_.strategy);
    const std::vector<sweep::Resource> resources = sweep::resources_of(unwrap(job_), share_);
    std::vector<const sweep::Resource*> all;
    all.reserve(resources.size());
    for (const sweep::Resource& resource : resources) all.push_back(&resource);
    result.effects.resize(resources.size());
    const int threads = search::thread_count(options_.threads);
    options_.threads = 1;
    search::Workers workers(threads);
    workers.for_each(resources.size() + 1, [&](std::size_t k, int /*worker*/) {
      if (k < resources.size()) {
        result.effects[k] = effect(resources[k].key, resources[k].name, {&resources[k]});
        result.effects[k].before = resources[k].before;
        result.effects[k].after = resources[k].after;
      } else {
        result.together = effect("all", "all of them", all);
      }
    });
    if (end_.has_passed()) return std::nullopt;
    const auto most =
        std::max_element(result.effects.begin(), result.effects.end(),
                         [](const ResourceEffect& a, const ResourceEffect& b) { return a.saves < b.saves; });
    result.binding = static_cast<std::size_t>(most - result.effects.begin());
    return result;
  }

 private:
  // Of a step of a plan, by the judge of all.
  std::optional<double> seconds(const cost::Job& job, const Plan& plan) const {
    if (options_.judge == PlanJudge::formula) return plan.prediction.iteration_s;
    return executed_seconds(job, options_.stop, plan, noisy_);
  }

  ResourceEffect effect(const std::string& key, const std::string& name,
                        const std::vector<const sweep::Resource*>& changes) const {
    ResourceEffect result;
    result.key = key;
    result.name = name;
    cost::Job changed = sweep::changed_job(unwrap(job_), changes);
    cost::Job keeping = changed;
    keeping.run.optimizer_offload = offload_;
    if (cost::refuse_strategy(keeping, base_.strategy, base_.stages).empty()) {
      const Plan kept = cost::evaluate(keeping, base_.strategy, base_.stages);
      if (kept.fits) result.kept_s = seconds(keeping, kept);
    }
    SearchOptions search = options_;
    search.time_limit_s = seconds_left(end_);
    const Answer answer = find_plan(wrap_job(std::move(changed)), search);
    std::optional<double> found_s;
    if (!answer.plans.empty()) found_s = seconds(unwrap(answer.job), answer.plans.front());
    result.replanned_s = std::min(found_s.value_or(INFINITY), result.kept_s.value_or(INFINITY));
    if (!std::isfinite(result.replanned_s)) result.replanned_s = step_s_;
    if (found_s && *found_s < result.kept_s.value_or(INFINITY) - kNoticed * step_s_) {
      result.strategy = plan::strategy_text(answer.plans.front().strategy);
    }
    result.saves = 1 - result.replanned_s / step_s_;
    if (result.kept_s) result.saves_kept = 1 - *result.kept_s / step_s_;
    return result;
  }

  TrainingJob job_;
  SearchOptions options_;
  search::Deadline end_;  // of all searches together: what is cut short is not told
  double share_;
  Plan base_;
  std::int64_t offload_ = 0;
  bool noisy_ = false;  // the plan is judged by executions with noise, and so are all
  double step_s_ = 0;
};

}  // namespace

std::optional<Sensitivity> find_sensitivity(const TrainingJob& job, const SearchOptions& options, double percent) {
  if (!(percent >= 0.1 && percent <= 100)) {
    throw InputError(fmt::format("{}: {} is no number of percent in 0.1 … 100", option("percent"), percent));
  }
  if (options.objective != PlanObjective::time) {
    throw InputError(
        fmt::format("{}: what resources buy is told of the time of a step; leave it out", option("objective")));
  }
  return Sensitivities(job, options, percent).find();
}

}  // namespace nest
