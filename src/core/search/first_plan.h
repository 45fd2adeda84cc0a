// A plan that fits, soon: what an expert would begin with, and small changes as long as they help.
//
// Stages are cut evenly and all do the same about memory. First the fewest devices of a pipeline, in powers of two, on
// which something fits with everything at its most frugal (the most devices, where state alone takes a third of all
// memory); from there one dimension at a time is moved while that makes the plan better (or lets it fit), then splits are
// traded for stages. No bound and no proof: the answer of a search that is stopped before it has a plan of its own.
#pragma once

#include <optional>

#include "nest/search.h"
#include "plan/plan.h"
#include "search/deadline.h"
#include "search/space.h"

namespace nest::search {

// What is made least.
double score_of(const Plan& plan, PlanObjective objective);

// A plan of the space that fits, priced; nothing where none was found before `end`. Ends at `enough` once it has one.
std::optional<Plan> first_plan(const PlanSpace& space, PlanObjective objective, const Deadline& end,
                               const Deadline& enough);

}  // namespace nest::search
