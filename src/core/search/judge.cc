#include "search/judge.h"

#include <fmt/format.h>

#include <algorithm>

namespace nest {

UnsoundPlan::UnsoundPlan(Plan plan, std::vector<Violation> violations)
    : InternalError(fmt::format("the search's plan is not sound: {}: {}", to_string(violations.front().code),
                                violations.front().text)),
      plan_(std::move(plan)),
      violations_(std::move(violations)) {}

StateFloor state_floor(const Job& job) {
  StateFloor state = state_floor(job.run);
  state.weights = std::min(state.weights, job.stack.weight_bytes);
  state.gradients = std::min(state.gradients, job.stack.gradient_bytes);
  state.optimizer =
      std::min(state.optimizer, job.stack.optimizer_bytes / (job.run.optimizer == Optimizer::sgd ? 2 : 1));
  state.activations = job.profile == nullptr;
  return state;
}

void require_sound(const Plan& plan, const Job& job) {
  std::vector<Violation> violations = check_plan(plan, job.model, job.cluster, state_floor(job));
  if (!violations.empty()) throw UnsoundPlan(plan, std::move(violations));
}

}  // namespace nest
