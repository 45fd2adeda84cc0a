#include "simulate/step_judge.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/index.h"
#include "simulate/least_time.h"
#include "simulate/lower.h"
#include "simulate/noise.h"
#include "simulate/summary.h"

namespace nest::simulate {
namespace {

constexpr std::int64_t kFilled = 4;   // rounds of p micro-batches until a step is periodic
constexpr std::int64_t kFewest = 24;  // micro-batches: no fewer than put off the head's gradients
constexpr double kLongStep = 1.5;     // times as many as are executed: below that the whole step is

}  // namespace

std::vector<std::int64_t> executed_micro_batches(std::int64_t m, std::int64_t p) {
  const std::int64_t least = std::max(kFilled * p, kFewest);
  const std::int64_t first = least + ((m - least) % p + p) % p;
  if (real(m) <= kLongStep * real(2 * first + p)) return {m};
  return {first, first + p};
}

namespace {

// What m micro-batches take where two smaller numbers of them take `first` and `second`.
double continued(const std::vector<std::int64_t>& counts, std::int64_t m, double first, double second) {
  return first + real(m - counts[0]) * (second - first) / real(counts[1] - counts[0]);
}

// The time of a whole step, of times of the programs that are executed of it.
template <class Time>
double step_s(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
              ExchangeCache& known, const Time& time) {
  const std::int64_t m = micro_batches(strategy, job.run.global_batch);
  const std::vector<std::int64_t> counts = executed_micro_batches(m, strategy.pp);
  if (counts.size() == 1) return time(lower_plan(job, strategy, stages, 1, Merge::alike, &known));
  std::array<double, 2> seconds{};
  for (std::size_t k = 0; k < 2; ++k) {
    cost::Job part = job;
    part.run.global_batch = counts[k] * strategy.micro_batch * strategy.dp;
    seconds[k] = time(lower_plan(part, strategy, stages, 1, Merge::alike, &known));
  }
  return continued(counts, m, seconds[0], seconds[1]);
}

}  // namespace

double passes_apart(const Strategy& strategy, std::int64_t global_batch) {
  const std::int64_t m = micro_batches(strategy, global_batch);
  return real(executed_micro_batches(m, strategy.pp).back()) * real(strategy.pp * strategy.virtual_stages) *
         real(strategy.dp);
}

double StepJudge::noise_factor(const Strategy& strategy, const std::vector<StagePlan>& stages,
                               std::int64_t runs) const {
  const std::int64_t m = micro_batches(strategy, job_.run.global_batch);
  cost::Job part = job_;
  const std::int64_t count = executed_micro_batches(m, strategy.pp).back();
  if (count < m) part.run.global_batch = count * strategy.micro_batch * strategy.dp;
  const auto execute_one = [&](const SimulationProgram& program) { return execute(program, limits_); };
  const LoweredPlan apart = lower_plan(part, strategy, stages, 1, Merge::inside_replicas, &exchanges_);
  return execute_noisy(apart, {}, runs, execute_one).mean_s() /
         execute_one(lower_plan(part, strategy, stages, 1, Merge::alike, &exchanges_).program).total_s;
}

double StepJudge::least_s(const Strategy& strategy, const std::vector<StagePlan>& stages) const {
  return step_s(job_, strategy, stages, exchanges_,
                [](const LoweredPlan& lowered) { return least_time(lowered.program).seconds(); });
}

double StepJudge::seconds(const Strategy& strategy, const std::vector<StagePlan>& stages) const {
  return step_s(job_, strategy, stages, exchanges_,
                [&](const LoweredPlan& lowered) { return execute(lowered.program, limits_).total_s; });
}

std::optional<double> StepJudge::seconds_below(const Strategy& strategy, const std::vector<StagePlan>& stages,
                                               double most_s) const {
  std::vector<LoweredPlan> lowered;
  const bool bounded = std::isfinite(most_s);
  const double least_s = step_s(job_, strategy, stages, exchanges_, [&](LoweredPlan plan) {
    lowered.push_back(std::move(plan));
    return bounded ? least_time(lowered.back().program).seconds() : 0.0;
  });
  if (least_s >= most_s) return std::nullopt;
  std::vector<double> seconds;
  seconds.reserve(lowered.size());
  for (const LoweredPlan& part : lowered) seconds.push_back(execute(part.program, limits_).total_s);
  if (seconds.size() == 1) return seconds.front();
  const std::int64_t m = micro_batches(strategy, job_.run.global_batch);
  return continued(executed_micro_batches(m, strategy.pp), m, seconds[0], seconds[1]);
}

StepEstimate StepJudge::estimate(const Strategy& strategy, const std::vector<StagePlan>& stages) const {
  const StepEstimator estimator(job_, strategy, stages, exchanges_);
  const std::int64_t m = micro_batches(strategy, job_.run.global_batch);
  const std::vector<std::int64_t> counts = executed_micro_batches(m, strategy.pp);
  const StepEstimate first = estimator.of(counts.front());
  if (counts.size() == 1) return first;
  const StepEstimate second = estimator.of(counts.back());
  return {continued(counts, m, first.seconds, second.seconds), continued(counts, m, first.least_s, second.least_s)};
}

ExecutedStep StepJudge::explain(const Plan& plan) const {
  constexpr std::size_t kMostTold = 3;
  ExecutedStep step;
  std::vector<Prediction::Breakdown> parts;
  const double total_s = step_s(job_, plan.strategy, plan.stages, exchanges_, [&](const LoweredPlan& lowered) {
    const Timeline timeline = execute(lowered.program, limits_);
    const SimulationSummary summary = summarise(lowered, timeline, plan.prediction);
    parts.push_back(summary.breakdown_s);
    step.contended.clear();  // the longest part tells it
    for (std::size_t k = 0; k < std::min(kMostTold, summary.slowed.size()); ++k) {
      step.contended.push_back(to_text(summary.slowed[k], summary.iteration_s));
    }
    return timeline.total_s;
  });
  Prediction::Breakdown& whole = parts.front();
  if (parts.size() > 1) {
    const std::int64_t m = micro_batches(plan.strategy, job_.run.global_batch);
    const std::vector<std::int64_t> counts = executed_micro_batches(m, plan.strategy.pp);
    for (const BreakdownPart& part : kBreakdownParts) {
      whole.*part.seconds = std::max(0.0, continued(counts, m, whole.*part.seconds, parts.back().*part.seconds));
    }
  }
  double sum = 0;
  for (const BreakdownPart& part : kBreakdownParts) sum += whole.*part.seconds;
  for (const BreakdownPart& part : kBreakdownParts) whole.*part.seconds *= total_s / sum;
  step.breakdown_s = whole;
  return step;
}

}  // namespace nest::simulate
