// Why not another way? The best plan when one decision of the chosen plan is overruled.
#pragma once

#include <string>
#include <vector>

#include "search/planner.h"

namespace nest::search {

// `seconds` is the limit of each of the searches, `end` of all.
std::vector<WhyNot> explain_plan(const PlanRequest& request, const PlanAnswer& answer, double seconds,
                                 const Deadline& end = {});

}  // namespace nest::search
