// Facts of a stack that options of pretrain_gpt.py say, for whoever reads a launch line and whoever writes one: kernels,
// overlap, dispatch of tokens, CUDA graphs, formats of weights, gradients and moments, the allocator.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/stack.h"
#include "launch/options.h"
#include "launch/setup.h"

namespace nest::launch {

// How quantised weights are kept (bytes per parameter) and gathered, by recipe of Transformer Engine.
struct WeightRecipe {
  Precision precision;
  std::string_view name;  // --fp8-recipe, --fp4-recipe
  bool gathered;          // --fp8-param-gather, --fp4-param-gather
  double weight_bytes;
  double traffic_bytes;
  cost::Storage storage;  // of what products read
};
const std::vector<WeightRecipe>& weight_recipes();
// Of a run in this precision with the weights of this stack; nothing where no recipe is known to keep them so.
std::optional<WeightRecipe> weight_recipe(Precision precision, const cost::SoftwareStack& stack);

// Megatron's word for a captured part (--cuda-graph-modules); empty for the whole step, which is an implementation.
std::string_view graph_module(cost::GraphScope scope);

// What Megatron captures: its cuda_graph_impl ("none", "local", "transformer_engine", "full_iteration") and
// cuda_graph_modules (until 2026: cuda_graph_scope), of which "mamba" and others are no part of a transformer's block.
// Without modules, all that can be.
std::vector<cost::GraphScope> graph_scopes(std::string_view implementation, const std::vector<std::string>& modules);

cost::DispatchRule dispatch_rule(const LaunchOptions& options);

// Everything that the line says about its software, from Megatron's defaults on. `environment`: variables that the
// script sets.
void read_stack_options(const LaunchOptions& options, const ShellVariables& environment, LaunchSetup& setup);

}  // namespace nest::launch
