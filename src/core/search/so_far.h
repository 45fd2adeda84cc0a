// What a search has by now, for whoever does not want to wait for its end. Telling changes nothing of the search.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace nest::search {

struct RankedPlan;

inline constexpr double kTellEvery_s = 0.15;

struct SoFar {
  const RankedPlan* ranked = nullptr;  // the best plan of the search; null: it has none, or `first` is better
  const Plan* first = nullptr;         // found by rules; null: none
  double score = 0;                    // of the better one; infinite where there is none
  double lower_bound = 0;              // of every score
  std::int64_t opened = 0;
  double elapsed_s = 0;
};

}  // namespace nest::search
