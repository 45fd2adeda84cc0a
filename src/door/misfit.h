// What would make a plan fit where none does.
#pragma once

#include <functional>

#include "nest/search.h"
#include "plan/limits.h"
#include "search/planner.h"

namespace nest {

// The limits that somebody set, for a job that differs from theirs in one thing.
using LimitsOf = std::function<plan::PlanLimits(const cost::Job&)>;

// What binds, and which single changes admit a plan: the fewest more devices of the same kind, found by looking at every
// number of hosts; another optimizer, fewer bits, the optimizer's state on the host, no limits. Searches are limited by
// how many nodes they open, so that the answer does not depend on the machine; `end` ends all of them.
NoFit explain_misfit(search::PlanRequest request, const SearchOptions& options, const LimitsOf& limits_of,
                     const search::Deadline& end);

}  // namespace nest
