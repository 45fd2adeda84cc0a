// What modules cost where they run as written: every operation is a kernel of its own that the host launches, and where
// one tensor was read several times, kernels add up the gradients that come back.
//
// Bytes that row-wise operators move, at the rate at which memory is read and written in long runs:
//
//                           forward   backward   launches
//     any kernel            inputs and outputs   1          11.8 an element of the result instead, if that is more, where
//                                                           shapes, layouts or types differ: indices are computed then;
//                                                           5 a byte of it where tensors are joined
//       its gradients       –         each       each       of an input for which something is kept: gradient, what is
//                                                           kept and result; of a copy: as forward; of a power two
//                                                           kernels more
//     sums of one tensor    –         3 tensors  1          for every reader beyond the first
//     weight of a row       –         12.4       2          an element: product and sum; nothing where it is frozen
//
// Modules that stand in a model's graph as one operator, per byte of the inputs and outputs that it names:
//
//     RMSNorm, written out  13.9      30.1       8  17      cast, square, mean, add, rsqrt, multiply, cast, multiply;
//                                                           3.2 less backward where its weight is frozen
//     LayerNorm, one kernel 2.15      4.75       1  2
//     LayerNorm, written    22.8      42.9       12  23     cohere's: cast, mean, less it, square, mean, less it again, …
//     rotary                12.6      13.7       10  24     of what is rotated, and 3 of what is not: a slice, joined;
//                                                           keys of latent attention: one head, which counts for nothing
//     rotary in fp32        25.7      32.9       14  22     cohere's, with casts
//     tanh-GELU written out 9.3       15         8  14      its four intermediate results are kept
//     experts' activation   10.4      12.9       4  5       masked and copied besides, with the part that it gates
//     product of the gate   1.85      2.77       1  2       of experts
//
// Dispatch and combine: 31.7 and 56.5 bytes per element of routed rows each. The gradient of a product's bias: 5.2 per
// element of its result. A look-up's gradient is sorted and summed: 84 an element, and the table cleared (2.4 a
// parameter). The loss on logits in fp32: 27 a logit (cast, softmax), backward 25.5.
//
// Measured on one H200 at 4.08 TB/s with tools/gpu/kernels.py: RMSNorm, rotary and gates in blocks of their own, all
// others in llama, qwen3, gemma, opt, mistral, stablelm, mixtral and cohere. Other models of docs/generated/gpu.md were
// not used.
#pragma once

#include <vector>

#include "cost/stack.h"
#include "split/local_layer.h"

namespace nest::cost {

// Modules of transformers, nothing of them fused.
bool runs_as_written(const SoftwareStack& stack);

struct EagerWork {
  double forward_bytes = 0, backward_bytes = 0;  // through memory; none of products and attention themselves
  double forward_launches = 0, backward_launches = 0;
};

struct EagerShape {
  double activation_bytes = 2;
  double routed_elements = 0;  // of the rows that experts get, as wide as the stream
  double rotated = 1;          // share of queries and keys
};

// Of a layer's operators, in their order.
std::vector<EagerWork> eager_work(const split::LocalLayer& local, const EagerShape& shape);

// How many of a layer's operators run again where all of it is recomputed: torch's checkpoint stops at the last one that
// makes something that is kept, so that a block's last product and sum do not run again.
std::size_t repeated_operators(const model::Layer& layer);

}  // namespace nest::cost
