#include "launch/expert_options.h"

#include <string>

namespace nest::launch {

// Layers are captured as far as static shapes allow, or as the scopes say.
std::vector<cost::GraphScope> graph_scopes(const LaunchOptions& options) {
  using cost::GraphScope;
  const std::string kind =
      options.choice("--cuda-graph-impl", {"none", "local", "transformer_engine", "full_iteration"})
          .value_or(options.flag("--enable-cuda-graph") ? "local" : "none");
  if (kind == "none") return {};
  if (kind == "full_iteration") return {GraphScope::full};
  std::vector<GraphScope> scopes;
  for (const std::string& scope : options.texts("--cuda-graph-scope")) {
    if (scope == "full_iteration") return {GraphScope::full};
    if (scope == "attn") scopes.push_back(GraphScope::attention);
    if (scope == "mlp") scopes.push_back(GraphScope::feed_forward);
    if (scope == "moe_router") scopes.push_back(GraphScope::router);
    if (scope == "moe_preprocess") scopes.push_back(GraphScope::preprocess);
  }
  if (!scopes.empty()) return scopes;
  return {GraphScope::attention, GraphScope::feed_forward, GraphScope::router, GraphScope::preprocess};
}

cost::DispatchRule dispatch_rule(const LaunchOptions& options) {
  const std::string type =
      options.choice("--moe-token-dispatcher-type", {"allgather", "alltoall", "flex"}).value_or("allgather");
  if (type == "allgather") return {cost::Dispatcher::allgather, 0};
  if (type == "alltoall") return {cost::Dispatcher::alltoall, 0};
  const std::string backend =
      options.choice("--moe-flex-dispatcher-backend", {"deepep", "hybridep", "ncclep"}).value_or("deepep");
  constexpr std::int64_t kMostMultiprocessors = 1024;
  const char* const count = backend == "hybridep" ? "--moe-hybridep-num-sms" : "--moe-deepep-num-sms";
  const auto busy = static_cast<int>(options.integer(count, 1, kMostMultiprocessors).value_or(0));
  if (backend == "hybridep") return {cost::Dispatcher::hybridep, busy};
  return {backend == "ncclep" ? cost::Dispatcher::ncclep : cost::Dispatcher::deepep, busy};
}

}  // namespace nest::launch
