// Planners of others, each a small implementation of its published idea, under our cost model.
//
// A rival chooses a plan by its own rules: it may ignore the network's levels, memory, or most of the space. What it
// chose is then priced and judged exactly as our own plans are, so that answers can be set side by side. None is made
// weaker than it was published: where the publication leaves a choice, every choice is tried and the best kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/job.h"
#include "plan/limits.h"
#include "search/planner.h"

namespace nest::rivals {

struct RivalRequest {
  const cost::Job* job = nullptr;
  plan::PlanLimits limits;                  // what a person or a framework admits; rivals keep to it
  std::int64_t most_devices = 0;            // 0: all of the cluster
  std::uint64_t seed = 1;                   // of those that draw lots
  double time_limit_s = 0;                  // 0: none
  const std::atomic<bool>* stop = nullptr;  // becomes true: as if the time were over
};

struct RivalAnswer {
  std::optional<Plan> plan;     // priced on the job's own network, sound, and within memory; none was found
  std::string note;             // why not, or what was limited; may be empty
  bool stopped = false;         // by a time limit, its own or the request's
  std::int64_t considered = 0;  // configurations priced by the rival itself
  double wall_s = 0;
};

struct Rival {
  const char* name;    // as --planners takes it
  const char* idea;    // in one sentence
  const char* source;  // the publication
  RivalAnswer (*plan)(const RivalRequest& request);
};

// In the order of publication of the ideas; `alpa` is missing where the ILP solver was left out of the build.
const std::vector<Rival>& rivals();
const Rival* find_rival(std::string_view name);

}  // namespace nest::rivals
