// What one given plan costs, by the formulas of instance.h read literally, node by node and edge by edge. Shares
// nothing with the search, so that it can judge the search's answers, and anybody's.
#pragma once

#include <string>
#include <vector>

#include "instance/instance.h"

namespace nest::instance {

enum class ProfileViolation : std::uint8_t {
  unknown_width,     // no graph of that width
  bad_cuts,          // not 0 = c0 < c1 < … < number of nodes
  bad_replicas,      // not within 1 … min(devices, micro-batches)
  too_many_devices,  // stages * a * replicas > devices
  memory,            // some stage does not fit
};

// "the plan needs more devices than there are", …
std::string describe(ProfileViolation violation);

// Front to back.
struct ProfileStage {
  int first_node = 0;  // position in topological order
  int node_count = 0;
  int from_end = 1;  // s
  int in_level = 0;
  int out_level = 0;
  double forward_s = 0;
  double backward_s = 0;  // including recomputation
  double load_s = 0;      // forward + backward
  std::int64_t parameter_bytes = 0;
  std::int64_t memory_bytes = 0;
  bool fits = false;
};

struct ProfileEvaluation {
  std::vector<ProfileViolation>
      violations;  // empty: the plan is valid; without a width, cuts or devices nothing below is set
  double objective_s = 0;
  double max_load_s = 0;
  double sync_s = 0;
  std::vector<ProfileStage> stages;

  bool valid() const { return violations.empty(); }
};

ProfileEvaluation evaluate_profile_plan(const ProfileInstance& instance, const ProfilePlan& plan);

}  // namespace nest::instance
