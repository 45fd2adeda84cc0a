#include "instance/planner.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace nest::instance {

ProfileAnswer plan_profile_instance(const ProfileInstance& instance) {
  ProfileAnswer answer;
  answer.solution = solve_profile_instance(instance);
  if (!answer.solution.plan) {
    answer.least_memory = least_profile_memory(instance);
    NEST_CHECK(!answer.least_memory || answer.least_memory->bytes > instance.device_memory_bytes,
               "the search found no plan although one fits");
    return answer;
  }
  answer.evaluation = evaluate_profile_plan(instance, *answer.solution.plan);
  NEST_CHECK(answer.evaluation.valid(),
             "the plan found breaks a rule: " + describe(answer.evaluation.violations.front()));
  // The two add up the same numbers in the same order; only a compiler that fuses operations could round them
  // differently.
  constexpr double kRounding = 1e-12;
  const double found_s = answer.solution.objective_s;
  const double judged_s = answer.evaluation.objective_s;
  NEST_CHECK(std::abs(found_s - judged_s) <= kRounding * judged_s,
             fmt::format("the search says {} for its plan, the evaluator {}", found_s, judged_s));
  return answer;
}

}  // namespace nest::instance
