// Why not another way? The best plan when one decision of the chosen plan is overruled.
#pragma once

#include <string>
#include <vector>

#include "search/planner.h"

namespace nest::search {

// `most_opened` limits the nodes that each of the searches opens (0: none), `end` all of them.
std::vector<WhyNot> explain_plan(const PlanRequest& request, const PlanAnswer& answer, std::int64_t most_opened,
                                 const Deadline& end = {});

}  // namespace nest::search
