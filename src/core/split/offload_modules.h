// Which operators of a layer are inside a module whose saved tensors may wait on the host (nest/strategy.h).
//
//   attn_norm        the norm before attention, where it is a module of its own: before latent projections
//   qkv_linear       the projections that attention reads, with the norm that runs inside the first of them; of latent
//                    attention all projections and norms between the stream and the heads, of others not the norms of
//                    heads
//   core_attn        attention itself
//   attn_proj        the projection of its result
//   mlp_norm         the norm before the experts' router
//   expert_fc1       the experts' first product
//   moe_act          their activation
//   fused_group_mlp  these two and the second product
// Read off Megatron-LM@d98e8a64: attention.py, multi_latent_attention.py, transformer_layer.py, moe/experts.py.
#pragma once

#include <vector>

#include "model/graph.h"
#include "nest/strategy.h"

namespace nest::split {

// By operator: the modules that it is inside of.
std::vector<OffloadSet> offload_modules(const model::Layer& layer);

}  // namespace nest::split
