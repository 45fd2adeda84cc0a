// What a launch line says of Megatron-FSDP (megatron/core/distributed/fsdp, as of August 2026).
//
//   --data-parallel-sharding-strategy   no_shard, optim, optim_grads, optim_grads_params: ZeRO 0 … 3
//   --outer-dp-sharding-strategy        optim: with several instances of the optimizer (groups of ranks that shard on
//                                       their own) its state is divided over all of them
//   --megatron-fsdp-…-dtype             formats of gradients, of what travels of them, and of the optimizer's weights
//   --fsdp-double-buffer                what memory is priced with (cost/memory_megatron.cc): a note where it is missing
//   --megatron-fsdp-version             2 has neither pipelines nor tensor or context parallelism
#pragma once

#include "launch/options.h"
#include "launch/setup.h"

namespace nest::launch {

// ZeRO stage and who shards what. Degrees, instances and precision are known already.
void read_fsdp_options(const LaunchOptions& options, LaunchSetup& setup);

// Bytes of gradients and masters. "auto" is the format of the weights; what travels is what is added up.
void read_fsdp_formats(const LaunchOptions& options, Precision precision, cost::SoftwareStack& stack);

}  // namespace nest::launch
