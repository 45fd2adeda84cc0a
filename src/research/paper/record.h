// What came out at a point, kept as one line of JSON so that an interrupted evaluation goes on where it stopped.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "paper/points.h"

namespace nest::paper {

struct PlannerResult {
  std::string planner;
  double iteration_s = 0;  // 0: no plan
  std::string strategy;    // with what stages do about memory
  std::int64_t devices = 0;
  double mfu = 0;
  double search_s = 0;   // of processor time
  bool stopped = false;  // by the limit
  bool optimal = false;
  std::string note;
  double simulated_s = 0;       // one step, executed (simulate/step_judge.h); 0: was not
  std::string simulation_note;  // why not

  bool has_plan() const { return iteration_s > 0; }
  double judged_s() const { return simulated_s > 0 ? simulated_s : iteration_s; }
};

struct Effort;

struct Record {
  std::string id;
  // What it was run with.
  std::string program;  // its version
  double time_limit_s = 0;
  std::uint64_t seed = 0;
  std::int64_t batch = 0;  // sequences
  std::vector<PlannerResult> planners;
  const PlannerResult* find(const std::string& planner) const;
  // Time of the rival's step over nest's, as both are executed; nothing where one of them has no plan.
  std::optional<double> ratio(const std::string& planner) const;
  std::optional<double> predicted_ratio(const std::string& planner) const;
  // Whether running the point again would ask the same.
  bool answers(const Effort& effort) const;
};

using Records = std::map<std::string, Record>;  // by id

struct Effort {
  double time_limit_s = 60;  // per planner
  double simulation_s = 60;
  std::uint64_t seed = 1;
};

// All planners of the build, one after the other, and every plan executed. nest's is the one that nest gives, which
// execution chose (nest/search.h); as published, the formula's. `solver` is held while alpa plans: its solver takes one
// program at a time, and waiting for it would be taken from alpa's time.
Record run_point(const Point& point, const Effort& effort, std::mutex& solver);

std::string to_line(const Record& record);
// The last line of every point that the evaluation asks for. Lines that cannot be read (the last one of a run that was
// killed) are left out.
Records read_records(const std::string& text);

}  // namespace nest::paper
