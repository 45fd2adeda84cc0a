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

}  // namespace

bool is_noise_executed(const cost::Job& job, const Plan& plan) {
  return simulate::passes_apart(plan.strategy, job.run.global_batch) <= kMostPasses;
}

double noise_factor(const simulate::StepJudge& judge, const cost::Job& job, const Plan& plan) {
  return is_noise_executed(job, plan) ? judge.noise_factor(plan.strategy, plan.stages, kNoisyRuns) : 1;
}

void expect_execution(const cost::Job& job, double known_s, const std::atomic<bool>* stop, Plan& plan) {
  plan.executed.reset();
  if (!plan.fits) return;
  const double formula_s = plan.prediction.iteration_s;
  const auto differs = [&](double seconds) { return std::abs(seconds / formula_s - 1) > kWorth; };
  if (known_s > 0 && !differs(known_s)) return;
  const simulate::StepJudge judge(job, {std::numeric_limits<double>::infinity(), stop});
  try {
    double seconds = known_s > 0 ? known_s : judge.seconds(plan.strategy, plan.stages);
    if (known_s <= 0 && differs(seconds)) seconds *= noise_factor(judge, job, plan);
    if (differs(seconds)) plan.executed = in_seconds(job, plan, seconds, judge.breakdown(plan));
  } catch (const SimulatorError&) {
    // Stopped.
  } catch (const InputError&) {
    // Too large to execute.
  }
}

}  // namespace nest
