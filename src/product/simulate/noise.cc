#include "simulate/noise.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace nest::simulate {
namespace {

// The finaliser of splitmix64: every bit of the answer depends on every bit of both.
std::uint64_t stirred(std::uint64_t state, std::int64_t value) {
  std::uint64_t x = state + 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(value);
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

// Four draws of 16 bits, each uniform in (-1/2, 1/2) with variance 1/12.
double nearly_normal(std::uint64_t bits) {
  double sum = 0;
  for (unsigned k = 0; k < 4; ++k) {
    sum += (static_cast<double>((bits >> (16 * k)) & 0xFFFFU) + 0.5) / 65536 - 0.5;
  }
  return std::sqrt(3.0) * sum;
}

bool is_pass(const ActivityLabel& label) {
  return label.part == Part::forward || label.part == Part::backward || label.part == Part::head_gradient;
}

double pass_factor(const ActivityLabel& label, const Noise& noise) {
  std::uint64_t state = stirred(0, static_cast<std::int64_t>(noise.seed));
  for (const std::int64_t value : {label.step, label.stage, label.replicas, label.micro_batch, label.chunk,
                                   static_cast<std::int32_t>(label.backward)}) {
    state = stirred(state, value);
  }
  return 1 + noise.deviation * nearly_normal(state);
}

// `program` is the plan's, with any noise.
void set_noise(const LoweredPlan& plan, const Noise& noise, SimulationProgram& program) {
  NEST_CHECK(noise.deviation >= 0 && noise.deviation <= kMostDeviation, "noise that is too large");
  for (std::size_t i = 0; i < program.activities.size(); ++i) {
    if (!is_pass(plan.labels[i])) continue;
    program.activities[i].seconds = plan.program.activities[i].seconds * pass_factor(plan.labels[i], noise);
  }
}

}  // namespace

SimulationProgram with_noise(const LoweredPlan& plan, const Noise& noise) {
  SimulationProgram program = plan.program;
  set_noise(plan, noise, program);
  return program;
}

double NoisySteps::mean_s() const {
  return std::accumulate(iteration_s.begin(), iteration_s.end(), 0.0) / static_cast<double>(iteration_s.size());
}

double NoisySteps::deviation_s() const {
  if (iteration_s.size() < 2) return 0;
  const double mean = mean_s();
  double sum = 0;
  for (const double one : iteration_s) sum += (one - mean) * (one - mean);
  return std::sqrt(sum / static_cast<double>(iteration_s.size() - 1));
}

double NoisySteps::lowest_s() const { return *std::min_element(iteration_s.begin(), iteration_s.end()); }
double NoisySteps::highest_s() const { return *std::max_element(iteration_s.begin(), iteration_s.end()); }

NoisySteps execute_noisy(const LoweredPlan& plan, const Noise& noise, std::int64_t runs, const Execute& execute) {
  NoisySteps steps;
  steps.iteration_s.reserve(static_cast<std::size_t>(runs));
  SimulationProgram program = plan.program;
  for (std::int64_t run = 0; run < runs; ++run) {
    set_noise(plan, {noise.deviation, noise.seed + static_cast<std::uint64_t>(run)}, program);
    steps.iteration_s.push_back(execute(program).total_s / static_cast<double>(plan.steps));
  }
  return steps;
}

}  // namespace nest::simulate
