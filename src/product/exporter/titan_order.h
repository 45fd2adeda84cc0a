// The order of a pipeline's operations as PyTorch's runtime loads it from a file (torchtitan's
// pipeline_parallel_schedule_csv; torch.distributed.pipelining.schedules, _load_csv in its format "compute_only").
//
// One line per rank, its operations in their order, joined by commas: position of the chunk in the chain of chunks, F, I,
// W or B, micro-batch. The runtime itself adds messages, gathers and reductions, and reads from the positions which rank
// holds which chunk.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"

namespace nest::exporter {

std::string titan_order(const Strategy& strategy, std::int64_t global_batch);

}  // namespace nest::exporter
