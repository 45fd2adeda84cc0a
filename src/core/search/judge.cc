#include "search/judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost/memory.h"

namespace nest::search {

UnsoundPlan::UnsoundPlan(Plan plan, std::vector<check::Violation> violations)
    : InternalError(fmt::format("the search's plan is not sound: {}: {}", to_string(violations.front().code),
                                violations.front().text)),
      plan_(std::move(plan)),
      violations_(std::move(violations)) {}

check::StateFloor state_floor(const cost::Job& job) {
  check::StateFloor state = check::state_floor(job.run);
  state.weights = std::min(state.weights, job.stack.weight_bytes);
  state.gradients = std::min(state.gradients, job.stack.gradient_bytes);
  const cost::StateBytes bytes = cost::state_bytes(job);
  state.optimizer = std::min({state.optimizer, bytes.optimizer, bytes.rest_optimizer});
  const model::Implementation implementation = cost::implementation_of(job);
  state.kept_input_bytes = implementation.kept_input_bytes;
  state.kept_attention_bytes = implementation.kept_attention_bytes;
  state.activations = job.profile == nullptr && job.stack.offloaded_layers == 0;
  return state;
}

void require_sound(const Plan& plan, const cost::Job& job) {
  std::vector<check::Violation> violations = check::check_plan(plan, job.model, job.cluster, state_floor(job));
  if (!violations.empty()) throw UnsoundPlan(plan, std::move(violations));
}

}  // namespace nest::search
