// Limits of a search from what people write.
#pragma once

#include <string>
#include <vector>

#include "plan/limits.h"

namespace nest {

// `set` are settings, "tp=1..8"; `micro_batch` is "auto" or sizes.
void set_limits(plan::PlanLimits& limits, const std::string& micro_batch, const std::vector<std::string>& set);

}  // namespace nest
