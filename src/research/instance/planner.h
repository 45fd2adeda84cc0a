// From an instance to a judged answer.
#pragma once

#include <optional>

#include "instance/evaluate.h"
#include "instance/instance.h"
#include "instance/least_memory.h"
#include "instance/solve.h"

namespace nest::instance {

struct ProfileAnswer {
  ProfileSolution solution;
  ProfileEvaluation evaluation;             // of solution.plan; empty without a plan
  std::optional<LeastMemory> least_memory;  // only without a plan
};

// Solves, and re-judges the plan with the evaluator: a plan that it rejects or prices differently is a bug
// (InternalError).
ProfileAnswer plan_profile_instance(const ProfileInstance& instance);

}  // namespace nest::instance
