// Prices one complete plan, straightforwardly: loops over its stages and layers, no tables, no bounds. The search calls
// it on every plan it returns.
#pragma once

#include <cstdint>
#include <vector>

#include "search/plan.h"
#include "search/problem.h"

namespace nest::search {

struct StageReport {
  std::int64_t time_ps = 0;           // t_s
  std::int64_t per_iteration_ps = 0;  // y_s
  std::int64_t compute_ps = 0;        // parts of t_s
  std::int64_t recompute_ps = 0;
  std::int64_t hop_ps = 0;
  std::int64_t zero_ps = 0;
  std::int64_t state_bytes = 0;  // parts of the memory
  std::int64_t working_bytes = 0;
  std::int64_t activation_bytes = 0;  // all that is in flight
  std::int64_t in_flight = 0;         // chunks of 1/v of the stage
  std::int64_t memory_bytes() const { return state_bytes + working_bytes + activation_bytes; }
};

struct Evaluation {
  std::int64_t time_ps = 0;
  std::int64_t micro_batches = 0;
  std::int64_t devices = 0;
  bool fits = false;
  std::vector<StageReport> stages;
};

// m = ceil(B / (b * replicas * expert)).
std::int64_t micro_batches_of(const Problem& problem, const Key& key);

// From the first to the last device of the placement.
std::int64_t devices_of(const Problem& problem, const Key& key);

// Key, cuts and options of the plan must be well formed; its other fields are ignored.
Evaluation evaluate(const Problem& problem, const Plan& plan);

}  // namespace nest::search
