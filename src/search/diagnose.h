// When nothing fits: which key comes closest, and by how much it misses.
#pragma once

#include <optional>

#include "search/plan.h"
#include "search/tree.h"

namespace nest::search {

// For every split, micro-batch size, number of stages and schedule with as many replicas as fit, the cuts that need
// least memory on the fullest stage; the least of all. Nothing when no key exists at all (too few devices,
// contradictory limits).
std::optional<Shortfall> nearest_fit(Shared& shared);

}  // namespace nest::search
