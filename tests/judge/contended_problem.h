// Random small problems on networks where messages and gradients meet: few devices, few layers, and links that take
// about as long as the passes. So small that every plan can be executed.
#pragma once

#include <cstdint>

#include "problem.h"

namespace nest::test {

inline constexpr std::int64_t kMostContendedPlans = 160;

// Deterministic in the seed: shared uplinks, oversubscribed leaves, rails and tori of 4 to 16 devices in turn; at most
// kMostContendedPlans plans.
Problem contended_problem(std::uint32_t seed);

// How many plans the problem has; counts no further than kMostContendedPlans + 1.
std::int64_t count_plans(const Problem& problem);

}  // namespace nest::test
