// Which device holds which part of the state, from the place of every rank of a plan.
//
// Every layer is two tensors, its routed experts and everything else, of which parameters count in their order. Tensor
// rank t of TP holds [t/TP, (t+1)/TP) of the latter, rank x + ETP e of ETP EP that part of the former; where ZeRO divides
// weights (stage 3) or the optimizer's state (from stage 1 on) over D ranks, the j-th of these has the j-th of D equal
// parts of that, layer by layer. (Megatron cuts buckets of layers instead: ranges differ, sizes do not.)
// Layers of an interleaved stage count as the run of layers that the plan says, unless it lists chunks.
#pragma once

#include <vector>

#include "cost/job.h"
#include "nest/plan.h"
#include "questions/reshard.h"

namespace nest {

struct StateLayout {
  questions::Layout weights, optimizer;               // by device, 0 … devices_spanned - 1
  std::vector<double> weight_bytes, optimizer_bytes;  // of every tensor
};

StateLayout state_layout(const cost::Job& job, const Plan& plan);

// Bytes that a checkpoint has: every trained weight and its optimizer's state once.
double checkpoint_bytes(const cost::Job& job);

// Device numbers before, of every device after nodes were lost: the nodes in the middle of `lost` equal parts are, and
// the last ones take their place. -1: it did nothing before.
std::vector<std::int64_t> survivors(std::int64_t devices, std::int64_t per_node, std::int64_t lost);

}  // namespace nest
