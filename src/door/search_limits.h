// Limits of a search from what people write.
#pragma once

#include <string>
#include <vector>

#include "nest/search.h"
#include "plan/limits.h"
#include "search/deadline.h"

namespace nest {

// `set` are settings, "tp=1..8"; `micro_batch` is "auto" or sizes.
void set_limits(plan::PlanLimits& limits, const std::string& micro_batch, const std::vector<std::string>& set);

// What is left of a limit, for SearchOptions::time_limit_s of one of several searches that share it; 0: there is none.
double seconds_left(const search::Deadline& end);

// A search by the formula alone, for one plan and nothing beside it.
SearchOptions bare_search(SearchOptions options);

}  // namespace nest
