// Peak memory of one device of one stage.
//
// The one idea that makes it exact: count the tensors that autograd keeps, per stack, and take the largest of the
// moments of a step (a layer's backward, the head's backward, the optimizer). See docs/memory.md for the formulas and
// what they were checked against.
//     allocated = state + buffers + in_flight * kept + max(working of its layers)
//     reserved  = allocated + what the caching allocator holds besides
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/job.h"
#include "plan/plan.h"

namespace nest {

struct MemoryEstimate {
  StageMemory parts;           // parts.total = reserved
  std::int64_t allocated = 0;  // peak of live tensors
  std::int64_t reserved = 0;   // what the allocator holds at that moment: what must fit, before margin and context
  std::int64_t needed = 0;     // reserved * (1 + margin) + context and communicators: compared with the device's memory
  std::string moment;          // "layer backward", "head", "optimizer step", …
};

// Micro-batches in flight on a stage in units of its whole activations: 1F1B min(p-s, m), GPipe m, interleaved
// min(2(p-s-1) + (v-1)p + 1, m v) / v. Without a pipeline: 1.
double in_flight(Schedule schedule, std::int64_t stages, std::int64_t virtual_stages, std::int64_t stage,
                 std::int64_t micro_batches);

// The stage's layers are first … last; an interleaved stage is judged by how many layers of each kind it holds, so any
// interval with these counts will do.
MemoryEstimate stage_memory(const Job& job, const Strategy& strategy, const StagePlan& stage, std::int64_t stage_index);

// CUDA context, libraries and communicators outside the framework's allocator.
std::int64_t context_bytes(const Job& job, const Strategy& strategy);

// Bytes of training state per parameter held by every data-parallel rank together: what precision and optimizer make of
// the stack's recipe.
struct StateBytes {
  double weight = 2;
  double gradient = 4;
  double optimizer = 12;
};
StateBytes state_bytes(const Job& job);

// Over how many ranks ZeRO divides dense and expert state. The group of dense parameters has dp*ep*cp ranks, that of
// experts dp*cp*tp/etp; a smaller degree (0: all of it) shrinks both in proportion.
struct ZeroDegrees {
  std::int64_t dense = 1;
  std::int64_t expert = 1;
};
ZeroDegrees zero_degrees(const Strategy& strategy, std::int64_t degree);

// For searches: with n parameters on the device before ZeRO, K = sum of kept_bytes, W = max of working_bytes (plus,
// under ZeRO 3, max of gather_bytes) over the stage's layers, and f micro-batches in flight, what must fit before
// margin and context is at most the largest over all rules of
//     scale * (state + parameter_bytes * n + f * flight_bytes + (activations ? f : 0) * K + kept_factor * K
//              + working_factor * W) + fixed_bytes
// Every term grows with the interval of layers and with f. It is the exact value of stage_memory except for buffers
// that exist once per distinct weight shape or once per kind of layer, which are counted as if the stage held every
// kind of layer of the model, and for the order of maxima under FSDP, where W adds two of them.
struct MemoryRule {
  double scale = 1;
  double parameter_bytes = 0;
  double flight_bytes = 0;
  double kept_factor = 0;
  double working_factor = 1;
  double fixed_bytes = 0;
  bool activations = true;
};
std::vector<MemoryRule> memory_rules(const Job& job, const Strategy& strategy, int zero, std::int64_t zero_degree);

}  // namespace nest
