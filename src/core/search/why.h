// Why not another way? The best plan when one decision of the chosen plan is overruled.
#pragma once

#include <string>
#include <vector>

#include "search/planner.h"

namespace nest {

enum class WhyOutcome : std::uint8_t {
  slower,     // by `excess`
  no_plan,    // nothing fits
  unknown,    // not settled within the time limit: at least `excess`
  not_worse,  // an equally good plan exists
};

struct WhyNot {
  std::string name;  // "tensor 4", "no sequence parallelism", …
  WhyOutcome outcome = WhyOutcome::unknown;
  double excess = 0;   // of the objective, relative
  PlanAnswer answer;   // with the best such plan, where there is one
  std::string reason;  // what else changes with it and where the time goes, or what does not fit
};

// `seconds` is the limit of each of the searches.
std::vector<WhyNot> explain_plan(const PlanRequest& request, const PlanAnswer& answer, double seconds);

}  // namespace nest
