// How long a step of a plan takes when it is executed (engine.h), and when that need not be found out.
//
// A step is periodic: once the pipeline is full, every further p micro-batches take the same time. Of a long step of m
// micro-batches only m1 and m1 + p are executed,
//     m1 = the least number >= max(4 p, 24) with m1 = m (mod p)       T(m) = T(m1) + (m - m1)/p (T(m1 + p) - T(m1))
// and least_time.h is continued likewise. Executions of whole steps differ by 1e-9 in nine of ten plans, by 1.1 % at
// most (contended pipelines have periods of several rounds).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/job.h"
#include "nest/plan.h"
#include "simulate/engine.h"
#include "simulate/exchanges.h"
#include "simulate/step_estimate.h"

namespace nest::simulate {

struct ExecutedStep {
  Prediction::Breakdown breakdown_s;
  std::vector<std::string>
      contended;  // transfers that others slow down (contention.h), in what is executed of the step
};

class StepJudge {
 public:
  // `job` must outlive it. Thread-safe.
  explicit StepJudge(const cost::Job& job, const EngineLimits& limits = {})
      : job_(job), limits_(limits), exchanges_(job.cluster) {}

  // Seconds of a step of a sound plan: at least, and when it is executed. Throw InputError where it is too large to
  // execute (lower.h), the latter SimulatorError when a limit ends it.
  double least_s(const Strategy& strategy, const std::vector<StagePlan>& stages) const;
  double seconds(const Strategy& strategy, const std::vector<StagePlan>& stages) const;
  // The same where the former is below `most_s`; nothing where it is not.
  std::optional<double> seconds_below(const Strategy& strategy, const std::vector<StagePlan>& stages,
                                      double most_s) const;
  // What it takes about, and at least, of the order of a tenth of what the bound above takes to find out.
  StepEstimate estimate(const Strategy& strategy, const std::vector<StagePlan>& stages) const;
  // Where these seconds go (summary.h), beside the plan's own prediction.
  ExecutedStep explain(const Plan& plan) const;
  // How much longer a step takes with noise, every replica for itself (noise.h): the mean of so many executions of the
  // longest part that is executed, over its one execution in lockstep.
  double noise_factor(const Strategy& strategy, const std::vector<StagePlan>& stages, std::int64_t runs) const;

 private:
  const cost::Job& job_;
  EngineLimits limits_;
  mutable ExchangeCache exchanges_;
};

// Passes of all replicas that noise_factor() executes.
double passes_apart(const Strategy& strategy, std::int64_t global_batch);

// Micro-batches that are executed of m in p stages: one number, or two of which the first is smaller.
std::vector<std::int64_t> executed_micro_batches(std::int64_t m, std::int64_t p);

}  // namespace nest::simulate
