// What the host launches for modules that are computed again in backward.
//
// Frameworks run every such module as a checkpointed function of its own (Megatron's CheckpointFunction and
// CheckpointWithoutOutput): states of random numbers are read before it, forked, set and set back around its second run,
// inputs are detached, autograd is started anew for it. That is host time whatever the module computes, kHostCheckpoint
// launches' worth; its operators are launched besides:
//
//     norms                 one function each (those that run inside a product are none)
//     core attention        its operator
//     latent projections    what comes with latent attention, kHostLatent
//     router                kHostRouter, or kHostFusedRouter
//     dispatch              kHostPreprocess, and an expert's share
//     experts' products,    kHostExperts over four: dispatch, up, down, combine
//     combine
//     all others            kHostPerOperator each
//
// Of what a CUDA graph captures, a tenth is left (host_launches()).
#pragma once

#include <optional>
#include <vector>

#include "cost/stack.h"
#include "split/local_layer.h"

namespace nest::cost {

// `set`: of RecomputePolicy::sets; nothing: under selective recomputation. `modules`: those of the set.
double recomputed_launches(const split::LocalLayer& local, const std::vector<model::Module>& modules,
                           std::optional<std::size_t> set, const SoftwareStack& stack);

}  // namespace nest::cost
