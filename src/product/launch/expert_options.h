// Options of pretrain_gpt.py about CUDA graphs and about how routed tokens travel.
#pragma once

#include <vector>

#include "cost/stack.h"
#include "launch/options.h"

namespace nest::launch {

std::vector<cost::GraphScope> graph_scopes(const LaunchOptions& options);
cost::DispatchRule dispatch_rule(const LaunchOptions& options);

}  // namespace nest::launch
