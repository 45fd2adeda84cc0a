#include "door/executed.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "cost/error_bar.h"
#include "nest/simulate.h"

namespace nest {
namespace {

constexpr double kMostPasses = 20'000;  // of all replicas: a second or two

// The same work in another time.
Prediction in_seconds(const cost::Job& job, const Plan& plan, double seconds, const Prediction::Breakdown& parts) {
  const Prediction& formula = plan.prediction;
  Prediction executed = formula;
  const double faster = formula.iteration_s / seconds;
  executed.iteration_s = seconds;
  executed.samples_per_s *= faster;
  executed.tokens_per_s_per_device *= faster;
  executed.flops_per_s_per_device *= faster;
  executed.mfu *= faster;
  double sum = 0;
  for (const BreakdownPart& part : kBreakdownParts) sum += parts.*part.seconds;
  for (const BreakdownPart& part : kBreakdownParts) {
    executed.breakdown_s.*part.seconds = parts.*part.seconds * seconds / sum;
  }
  executed.spread = cost::spread_of(job, plan.strategy, executed);
  return executed;
}

bool differs(const Plan& plan, double seconds) { return std::abs(seconds / plan.prediction.iteration_s - 1) > kWorth; }

}  // namespace

bool can_execute(const cost::Job& job) { return job.cluster.measured.empty(); }

bool is_noise_executed(const cost::Job& job, const Plan& plan) {
  return simulate::passes_apart(plan.strategy, job.run.global_batch) <= kMostPasses;
}

double noise_factor(const simulate::StepJudge& judge, const cost::Job& job, const Plan& plan) {
  return is_noise_executed(job, plan) ? judge.noise_factor(plan.strategy, plan.stages, kNoisyRuns) : 1;
}

std::optional<Prediction> executed_prediction(const cost::Job& job, const std::atomic<bool>* stop, const Plan& plan) {
  if (!can_execute(job)) return std::nullopt;
  const simulate::StepJudge judge(job, {std::numeric_limits<double>::infinity(), stop});
  try {
    double seconds = judge.seconds(plan.strategy, plan.stages);
    if (differs(plan, seconds)) seconds *= noise_factor(judge, job, plan);
    return in_seconds(job, plan, seconds, judge.explain(plan).breakdown_s);
  } catch (const SimulatorError&) {
    return std::nullopt;  // stopped
  } catch (const InputError&) {
    return std::nullopt;  // too large to execute
  }
}

std::optional<double> executed_seconds(const cost::Job& job, const std::atomic<bool>* stop, const Plan& plan,
                                       bool noisy) {
  if (!can_execute(job)) return std::nullopt;
  const simulate::StepJudge judge(job, {std::numeric_limits<double>::infinity(), stop});
  try {
    const double seconds = judge.seconds(plan.strategy, plan.stages);
    return noisy ? seconds * noise_factor(judge, job, plan) : seconds;
  } catch (const SimulatorError&) {
    return std::nullopt;  // stopped
  } catch (const InputError&) {
    return std::nullopt;  // too large to execute
  }
}

void expect_execution(const cost::Job& job, double known_s, const std::atomic<bool>* stop, Plan& plan, TimePoint end) {
  plan.executed.reset();
  plan.contended.clear();
  if (!plan.fits || !can_execute(job)) return;
  if (known_s > 0 && !differs(plan, known_s)) return;
  // What is known is told, where it goes as far as the formula knows.
  if (known_s > 0) plan.executed = in_seconds(job, plan, known_s, plan.prediction.breakdown_s);
  if (std::chrono::steady_clock::now() >= end) return;
  const simulate::StepJudge judge(job, {std::numeric_limits<double>::infinity(), stop, end});
  try {
    double seconds = known_s > 0 ? known_s : judge.seconds(plan.strategy, plan.stages);
    if (known_s <= 0 && differs(plan, seconds)) seconds *= noise_factor(judge, job, plan);
    if (!differs(plan, seconds)) return;
    simulate::ExecutedStep step = judge.explain(plan);
    plan.executed = in_seconds(job, plan, seconds, step.breakdown_s);
    plan.contended = std::move(step.contended);
  } catch (const SimulatorError&) {
    // Stopped, or no time is left.
  } catch (const InputError&) {
    // Too large to execute.
  }
}

}  // namespace nest
