// From a job to its best plans, each priced by evaluate() and, unless the request says otherwise, judged by check_plan().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost/evaluate.h"
#include "plan/limits.h"
#include "search/best_first.h"

namespace nest::search {

struct PlanRequest {
  const cost::Job* job = nullptr;
  plan::PlanLimits limits;
  std::int64_t most_devices = 0;  // 0: all of the cluster
  SearchSettings search;
  PriceCache* prices = nullptr;  // kept between requests for the same job; may be null
  // Told of plans on the way, each with the record of a search that goes on (so_far.h).
  std::function<void(const Plan&)> incumbent = {};
  bool judged = true;  // every plan, by check_plan(); false: of a long list, whoever takes one asks for it (judge.h)
};

// The plan that comes closest where none fits, every option at its most frugal.
struct ClosestPlan {
  Plan plan;
  std::int64_t stage = 0;         // that lacks most
  std::int64_t needed_bytes = 0;  // there
};

struct PlanAnswer {
  PlanOutcome outcome = PlanOutcome::limit;
  std::vector<Plan> plans;  // best first, each with the record of this search
  PlanObjective objective = PlanObjective::time;
  double lower_bound = 0;  // of the first: seconds, or device-seconds when device-hours are minimised
  double keys = 0;
  std::int64_t opened = 0, leaves = 0, priced = 0;
  double wall_s = 0;
};

// Devices that may be used: `most_devices` (0: all), and no more than the cluster has.
std::int64_t device_limit(const cost::Job& job, std::int64_t most_devices);

// Throws InputError when a space has no plan at all, whatever its memory. `keys` is its count_keys().
void refuse_empty(const PlanSpace& space, double keys);

// Throws InputError as refuse_empty() does.
PlanAnswer make_plan(const PlanRequest& request);

// A plan of a key and what executions of all plans of the key take at least, seconds or device-seconds.
struct BoundedPlan {
  double least = 0;
  Plan plan;  // whose own bound is that; priced
};

// Keys by what their plans take at least when they are executed (schedule::Law::least).
struct BoundedKeys {
  std::vector<BoundedPlan> plans;  // least first
  double least = 0;                // of all plans there are
  double next = 0;                 // of all keys that are not listed, or the request's known_score
  bool complete = false;           // no time limit ended it
  std::int64_t opened = 0;
};

// At most search.top keys, whose bound is below search.known_score.
BoundedKeys bound_plans(const PlanRequest& request);

// For a job and limits that admit no plan in memory. Nothing when not even one stage can be placed, or the request's time
// is over before one is.
std::optional<ClosestPlan> closest_plan(const PlanRequest& request);

}  // namespace nest::search
