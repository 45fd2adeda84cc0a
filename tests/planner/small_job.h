// Small models on small clusters, small enough to try every plan.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "cost/evaluate.h"
#include "model/presets.h"
#include "planner/planner.h"

namespace nest::test {

struct SmallCase {
  Job job;
  PlanLimits limits;
  std::string text;
};

// Deterministic in the seed: model, cluster shape, memory, batch, stack and which options are admitted.
SmallCase small_case(std::uint32_t seed);

// The least iteration time over every plan of the case, by evaluate() alone: loops over splits, micro-batches, stages,
// schedules, replicas, placements, cuts and options. Infinite when nothing fits.
struct Exhaustive {
  double best_s = 0;
  double best_device_s = 0;
  std::int64_t plans = 0;
};
Exhaustive try_everything(const SmallCase& small);

}  // namespace nest::test
