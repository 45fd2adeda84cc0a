// A step as machines run it: no two passes take the same time, and replicas drift apart.
//
// One execution without noise is one point of many: replicas that share an uplink stay in lockstep though the slightest
// difference would let them drift apart and hide behind each other, and contended pipelines amplify differences. The
// yardstick is therefore the mean of several executions with noise, and their spread says how large a difference
// between two plans must be to mean anything.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "simulate/lower.h"

namespace nest::simulate {

// Every pass takes 1 + deviation · z times as long. z is a sum of four uniform draws, with mean 0 and variance 1, nearly
// normal and at most 2 sqrt(3) from 0. It depends on nothing but the seed and the pass: step, stage, replica,
// micro-batch, chunk and direction. A pass that is executed in pieces has one z.
struct Noise {
  double deviation = 0.01;
  std::uint64_t seed = 1;
};

inline constexpr double kMostDeviation = 0.25;  // a pass takes no less than a tenth of its time

// The plan's program with noise; deviation in 0 … kMostDeviation. For every replica to have its own, the plan must be
// lowered with Merge::inside_replicas (or nothing).
SimulationProgram with_noise(const LoweredPlan& plan, const Noise& noise);

// Seconds of a step in executions with noise of seed, seed + 1, …
struct NoisySteps {
  std::vector<double> iteration_s;

  double mean_s() const;
  double deviation_s() const;  // of one execution: the square root of the unbiased variance; 0 for a single one
  double lowest_s() const;
  double highest_s() const;
};

using Execute = std::function<Timeline(const SimulationProgram&)>;
NoisySteps execute_noisy(const LoweredPlan& plan, const Noise& noise, std::int64_t runs, const Execute& execute);

}  // namespace nest::simulate
