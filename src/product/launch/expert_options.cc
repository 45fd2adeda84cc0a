#include "launch/expert_options.h"

#include <string>

namespace nest::launch {

std::vector<cost::GraphScope> graph_scopes(std::string_view implementation, const std::vector<std::string>& scopes) {
  using cost::GraphScope;
  if (implementation.empty() || implementation == "none") return {};
  if (implementation == "full_iteration") return {GraphScope::full};
  if (scopes.empty()) return cost::static_scopes();
  std::vector<GraphScope> captured;
  for (const std::string& scope : scopes) {
    if (scope == "full_iteration") return {GraphScope::full};
    if (scope == "full_layer") return cost::static_scopes();
    if (scope == "attn") captured.push_back(GraphScope::attention);
    if (scope == "mlp") captured.push_back(GraphScope::feed_forward);
    if (scope == "moe_router") captured.push_back(GraphScope::router);
    if (scope == "moe_preprocess") captured.push_back(GraphScope::preprocess);
  }
  return captured;
}

std::vector<cost::GraphScope> graph_scopes(const LaunchOptions& options) {
  const std::string kind =
      options.choice("--cuda-graph-impl", {"none", "local", "transformer_engine", "full_iteration"})
          .value_or(options.flag("--enable-cuda-graph") ? "local" : "none");
  return graph_scopes(kind, options.texts("--cuda-graph-scope"));
}

cost::DispatchRule dispatch_rule(const LaunchOptions& options) {
  const std::string type =
      options.choice("--moe-token-dispatcher-type", {"allgather", "alltoall", "flex"}).value_or("allgather");
  if (type != "flex") return {cost::find_dispatcher(type).value(), 0};
  const std::string backend =
      options.choice("--moe-flex-dispatcher-backend", {"deepep", "hybridep", "ncclep"}).value_or("deepep");
  constexpr std::int64_t kMostMultiprocessors = 1024;
  const char* const count = backend == "hybridep" ? "--moe-hybridep-num-sms" : "--moe-deepep-num-sms";
  const auto busy = static_cast<int>(options.integer(count, 1, kMostMultiprocessors).value_or(0));
  return {cost::find_dispatcher(backend).value(), busy};
}

}  // namespace nest::launch
