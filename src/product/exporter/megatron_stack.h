// What a plan's stack says, as options of Megatron-LM: a run that is launched with them is the one that was priced
// (launch/stack_options.h reads them back). Checked against Megatron-LM d98e8a64, training/arguments.py and
// core/transformer/transformer_config.py, whose refusals are the conditions here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "exporter/megatron.h"

namespace nest::exporter {

// Fields of Megatron's TransformerConfig: --moe-token-dispatcher-type here is moe_token_dispatcher_type in
// Megatron-Bridge. Dispatch, capacity, overlap with shared experts, fused kernels, attention in 8 bits, CUDA graphs.
std::vector<LaunchOption> layer_options(const ExportTask& task);

// Loss, formats of weights, gradients and moments.
std::vector<LaunchOption> state_options(const ExportTask& task);
std::vector<LaunchOption> offload_options(const ExportTask& task);  // those of them about the host

// Variables that must be set for it, and what no option says.
std::vector<std::pair<std::string, std::string>> stack_environment(const ExportTask& task);
std::vector<std::string> stack_notes(const ExportTask& task);

// Whether routed tokens of this plan travel behind another micro-batch: the stack may, and every stage can.
bool overlaps_experts(const ExportTask& task);

// Whether its tensor-parallel collectives run behind products (cost/layer_price.h), and Megatron accepts that.
bool overlaps_tensor(const ExportTask& task);

// Which two buffers Megatron-FSDP has of every chunk's blocks, those that memory is priced with, as an option: the fixed
// ones are for blocks of one size. Null where routed tokens travel behind another micro-batch: it has none then.
const char* fsdp_buffers(const ExportTask& task);

// Of anything: experts may have replicas where the rest has none.
bool has_replicas(const ExportTask& task);

// State that the plan divides, or formats that only the distributed optimizer keeps, even where there is one replica.
bool needs_distributed_optimizer(const ExportTask& task);

// --fp8-recipe of a run in fp8.
std::string fp8_recipe(const cost::Job& job);

}  // namespace nest::exporter
