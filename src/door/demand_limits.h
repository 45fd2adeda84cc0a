// What a demand leaves to one step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "nest/demand.h"

namespace nest {

struct StepLimits {
  double steps = 0;  // for all tokens
  double step_s = std::numeric_limits<double>::infinity();
  double device_s = std::numeric_limits<double>::infinity();  // of a step

  double seconds_on(std::int64_t devices) const { return std::min(step_s, device_s / static_cast<double>(devices)); }
};

// The demand's price must be known where it has a budget.
StepLimits step_limits(const TrainingJob& job, const Demand& demand);

}  // namespace nest
