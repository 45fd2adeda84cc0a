#include "cost/recomputed_launches.h"

#include <algorithm>

#include "cost/constants.h"

namespace nest::cost {
namespace {

using namespace constants;

constexpr double kExpertCalls = 4;  // dispatch, up, down, combine

double launches_of(const split::LocalOperator& op, double latent_operators, const SoftwareStack& stack) {
  switch (op.kind) {
    case model::OperatorKind::router: return stack.fused_router ? kHostFusedRouter : kHostRouter;
    case model::OperatorKind::dispatch: return kHostPreprocess + kHostExperts / kExpertCalls;
    case model::OperatorKind::grouped_matmul:
    case model::OperatorKind::combine: return kHostExperts / kExpertCalls;
    default: break;
  }
  return op.module == model::Module::latent_up ? kHostLatent / latent_operators : kHostPerOperator;
}

GraphScope scope_of(const split::LocalOperator& op) {
  switch (op.module) {
    case model::Module::feed_forward:
    case model::Module::activation: return GraphScope::feed_forward;
    case model::Module::shared_experts:
    case model::Module::shared_activation: return GraphScope::router;
    case model::Module::moe: return op.kind == model::OperatorKind::router ? GraphScope::router : GraphScope::full;
    case model::Module::moe_activation: return GraphScope::full;
    default: return GraphScope::attention;
  }
}

}  // namespace

double recomputed_launches(const split::LocalLayer& local, const std::vector<model::Module>& modules,
                           std::optional<std::size_t> set, const SoftwareStack& stack) {
  const auto left_of = [&](GraphScope scope) {
    const bool captured = std::any_of(stack.graph_scopes.begin(), stack.graph_scopes.end(),
                                      [&](GraphScope one) { return one == scope || one == GraphScope::full; });
    return captured ? kHostCaptured : 1;
  };
  const auto latent = std::count_if(local.operators.begin(), local.operators.end(),
                                    [](const auto& op) { return op.module == model::Module::latent_up; });
  unsigned begun = 0;  // functions that were entered already, by module
  double launches = 0;
  for (const split::LocalOperator& op : local.operators) {
    const bool again = set ? (op.recomputed_sets >> *set & 1) != 0 : op.recomputed;
    if (!again) continue;
    launches += left_of(scope_of(op)) * launches_of(op, static_cast<double>(latent), stack);
    const bool named = std::find(modules.begin(), modules.end(), op.module) != modules.end();
    const unsigned own = 1u << static_cast<unsigned>(op.module);
    if (!named || ((begun & own) != 0 && op.module != model::Module::norm)) continue;
    begun |= own;
    launches += left_of(scope_of(op)) * kHostCheckpoint;
  }
  return launches;
}

}  // namespace nest::cost
