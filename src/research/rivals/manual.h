// What an expert does by hand, after the guidance of Megatron-LM's authors.
//
// Three ways, all tried, the best one kept:
//   the rules       tensor parallelism inside a node first, then pipeline stages; of these the smallest product that
//                   fits; data parallelism fills the rest, its optimizer state sharded. Attention alone is recomputed
//                   before everything is. Experts are spread inside the node, before or after the tensors.
//   published runs  degrees that were published for a model of about this size, scaled by data parallelism.
//   sharding        data parallelism alone, with optimizer state, then gradients, then weights sharded until it fits.
// Layers are spread evenly. What the guidance leaves open is tried: micro-batch sizes, recomputation, interleaving, the
// two rank orders that frameworks know.
//
// D. Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, SC 2021;
// V. Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, MLSys 2023; NVIDIA NeMo's
// performance guide and recipes; S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models, SC 2020.
#pragma once

#include "rivals/rival.h"

namespace nest::rivals {

RivalAnswer plan_manual(const RivalRequest& request);

}  // namespace nest::rivals
