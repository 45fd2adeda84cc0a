// Options of pretrain_gpt.py about CUDA graphs and about how routed tokens travel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost/stack.h"
#include "launch/options.h"

namespace nest::launch {

// What Megatron captures: its cuda_graph_impl ("none", "local", "transformer_engine", "full_iteration") and
// cuda_graph_scope, of which "mamba" and others are no part of a transformer's block. Without scopes, all that can be.
std::vector<cost::GraphScope> graph_scopes(std::string_view implementation, const std::vector<std::string>& scopes);
std::vector<cost::GraphScope> graph_scopes(const LaunchOptions& options);
cost::DispatchRule dispatch_rule(const LaunchOptions& options);

}  // namespace nest::launch
