// Several planners on one job: ours and the rivals, each in one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rivals/rival.h"

namespace nest::rivals {

inline constexpr const char* kOwnPlanner = "nest";

struct PlannerRun {
  std::string planner, idea, source;
  std::optional<Plan> plan;  // with the record of this planner's search
  std::string note;          // why there is none, or what was limited
  bool stopped = false;      // by a time limit
  bool none_fits = false;    // proven over the whole space
  bool optimal = false;      // proven over the whole space
  double lower_bound_s = 0;  // 0: none is known
  double considered = 0;     // plans, as the planner counts them
  double keys = 0;           // ours: candidates of the space, and nodes of the search
  std::int64_t opened = 0;
  double wall_s = 0;
};

// Ours first, then the rivals in their order.
std::vector<std::string> planner_names();

// NEST_CHECKs the name.
PlannerRun run_planner(const std::string& name, const RivalRequest& request);

// In the order of the names; `threads` planners at a time. `done` is told of every one that ends, one at a time. Throws
// InputError when the limits admit no plan at all, whatever its memory, whoever is asked.
std::vector<PlannerRun> run_planners(const std::vector<std::string>& names, const RivalRequest& request, int threads,
                                     const std::function<void(const PlannerRun&)>& done = {});

}  // namespace nest::rivals
