// Planners side by side: ours and those of others, each a small implementation of its published idea, priced by one cost
// model and judged by the same check.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nest/job.h"
#include "nest/plan.h"
#include "nest/report.h"

namespace nest {

struct ComparedPlanner {
  std::string name, idea, source;
  std::optional<Plan> plan;  // none was found
  std::string note;          // why, or what was limited; may be empty
  bool stopped = false;      // by a time limit
  bool none_fits = false;    // proven
  double considered = 0;     // plans, as the planner counts them
  double wall_s = 0;
  std::optional<double> simulated_s;  // of one step, where it was simulated
  std::string simulation_note;        // why it was not
};

struct CompareOptions {
  std::vector<std::string> planners = {};  // in the order to show them, of planner_names(); empty: all
  std::string micro_batch = "auto";        // as those of SearchOptions, for all planners
  std::vector<std::string> set = {};
  std::int64_t max_devices = 0;
  std::int64_t seed = 1;     // of planners that draw lots
  std::int64_t threads = 0;  // planners at a time; 0: one per core
  double time_limit_s = 0;   // per planner; 0: none
  // Execute every plan on the simulated network (nest/simulate.h) and compare by that: ours is then the plan that
  // execution chose (nest/search.h).
  bool simulate = false;
  const std::atomic<bool>* stop = nullptr;  // becomes true: all planners end early
  std::function<void(const std::string& planner, double wall_s)> done =
      {};  // told of every one that ends, one at a time
};

struct Comparison {
  TrainingJob job;
  std::vector<ComparedPlanner> planners;
  bool simulated = false;  // was asked for

  bool found() const;    // somebody has a plan
  bool is_open() const;  // nobody has, but somebody was stopped and nobody proved that there is none
};

// Ours first, then the others in the order of publication.
std::vector<std::string> planner_names();

// Throws InputError.
Comparison compare_planners(const TrainingJob& job, const CompareOptions& options = {});

std::string to_text(const Comparison& comparison, const Style& style = Style());
std::string to_json(const Comparison& comparison);                                     // nest.compare/1
std::string to_html(const Comparison& comparison, const ReportOptions& options = {});  // with the fastest plan
std::string to_svg(const Comparison& comparison);                                      // a bar chart

}  // namespace nest
