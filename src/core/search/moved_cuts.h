// Plans of one strategy that differ from a given one a little in where their stages are cut.
#pragma once

#include <vector>

#include "nest/plan.h"

namespace nest::search {

// The stages of `plan` with one layer moved between two neighbours, each way for each pair, and with the numbers of
// layers in reverse order; none of them is empty. They are not priced and need not fit. Nothing where stages hold
// several chunks or there is one stage.
std::vector<std::vector<StagePlan>> moved_cuts(const Plan& plan);

}  // namespace nest::search
