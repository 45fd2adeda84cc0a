// The best plan that a framework can run.
#include <array>
#include <chrono>
#include <limits>

#include "base/error.h"
#include "cost/group_time.h"
#include "exporter/framework.h"
#include "exporter/gpt.h"
#include "plan/pipeline_shape.h"
#include "schedule/pipeline.h"
#include "schedule/rules.h"

namespace nest::exporter {
namespace {

constexpr std::array kListLengths = {1, 16, 128};  // plans asked for, until one of them is without obstacles

class NearestSearch {
 public:
  NearestSearch(launch::Framework framework, const cost::Job& job, const search::SearchSettings& search,
                search::PriceCache* prices, const Asked& asked)
      : framework_(framework), job_(job), search_(search), prices_(prices), asked_(asked) {}

  std::optional<NearestPlan> run() {
    const auto begin = std::chrono::steady_clock::now();
    plan::PlanLimits limits = runnable_limits(framework_, job_, asked_.per_host, true), admitted;
    for (const std::string& setting : asked_.set) plan::set_limit(admitted, setting);
    plan::narrow(limits, admitted);
    search(limits);
    if (!best_) return std::nullopt;
    best_->proven = proven_;
    best_->wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return best_;
  }

 private:
  double best_s() const { return best_ ? best_->plan.prediction.iteration_s : std::numeric_limits<double>::infinity(); }

  void take(const Plan& plan) {
    if (!plan.fits || plan.prediction.iteration_s >= best_s()) return;
    best_ = NearestPlan{plan, false, 0};
  }

  // Whether the plan settles the search: nothing after it in the list can be better.
  bool settles(const Plan& plan) {
    if (plan.prediction.iteration_s >= best_s()) return true;
    if (obstacles(framework_, job_, plan.strategy, plan.stages, asked_.per_host).empty()) {
      take(plan);
      return true;
    }
    take_folded(plan);
    return false;
  }

  void take_folded(const Plan& plan) {
    const std::optional<std::vector<StagePlan>> stages = folded_stages(job_, plan.strategy, plan.stages);
    if (!stages || !cost::refuse_strategy(job_, plan.strategy, *stages).empty()) return;
    if (!obstacles(framework_, job_, plan.strategy, *stages, asked_.per_host).empty()) return;
    take(cost::evaluate(job_, plan.strategy, *stages));
  }

  void search(const plan::PlanLimits& limits) {
    if (plan::is_empty(limits)) return;
    for (const int length : kListLengths) {
      search::PlanRequest request;
      request.job = &job_;
      request.limits = limits;
      request.most_devices = asked_.most_devices;
      request.prices = prices_;
      request.search = search_;
      request.search.top = length;
      request.search.known_score = best_s();
      search::PlanAnswer answer;
      try {
        answer = search::make_plan(request);
      } catch (const InputError&) {
        return;  // these limits admit no plan at all
      }
      if (answer.outcome == PlanOutcome::limit) proven_ = false;
      for (const Plan& plan : answer.plans) {
        if (settles(plan)) return;
      }
      if (answer.outcome == PlanOutcome::limit) return;
      if (static_cast<int>(answer.plans.size()) < length) return;  // these were all that could be better
    }
    proven_ = false;
  }

  launch::Framework framework_;
  const cost::Job& job_;
  search::SearchSettings search_;
  search::PriceCache* prices_;
  const Asked& asked_;
  std::optional<NearestPlan> best_;
  bool proven_ = true;
};

}  // namespace

std::optional<std::vector<StagePlan>> folded_stages(const cost::Job& job, const Strategy& strategy,
                                                    const std::vector<StagePlan>& stages) {
  const schedule::Rule& rule = schedule::rule_of(strategy.schedule);
  if (!rule.is_v() || strategy.pp == 1 || plan::lists_chunks(stages)) return std::nullopt;
  const schedule::Chain chain(rule, plan::pipeline_shape(strategy, job.run.global_batch));
  std::vector<StagePlan> folded = plan::stages_of_chunks(job.model, chain, v_blocks(job.model, stages));
  for (StagePlan& stage : folded) {
    stage.zero = stages.front().zero;
    stage.zero_degree = stages.front().zero_degree;
    stage.recompute = stages.front().recompute;
  }
  return folded;
}

std::optional<NearestPlan> nearest_plan(launch::Framework framework, const cost::Job& job,
                                        const search::SearchSettings& search, search::PriceCache* prices,
                                        const Asked& asked) {
  search::PriceCache own(job);
  return NearestSearch(framework, job, search, prices != nullptr ? prices : &own, asked).run();
}

}  // namespace nest::exporter
