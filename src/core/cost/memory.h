// Peak memory of one device of one stage.
//
// The one idea that makes it exact: count the tensors that autograd keeps, per stack, and take the largest of the
// moments of a step (a layer's backward, the head's backward, the optimizer). See docs/memory.md for the formulas and
// what they were checked against.
//     allocated = state + buffers + in_flight * kept + max(working of its layers)
//     total     = allocated + what the caching allocator holds besides
//     needed    = total * (1 + margin) + context and communicators
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cost/group_time.h"
#include "cost/job.h"
#include "cost/treatments.h"
#include "plan/plan.h"
#include "schedule/rules.h"

namespace nest::cost {

class MemoryKinds;  // cost/memory_kinds.h

// What the memory of a stage has to do with the rest of its strategy.
struct StageSetting {
  groups::ZeroDegrees degrees;     // over which its state is divided, where it is
  groups::ZeroDegrees replicas;    // over which that of the optimizer is, where it is divided wider (zero_outer)
  double in_flight = 1;            // micro-batches
  std::int64_t context_bytes = 0;  // context_bytes()
  std::int64_t waiting = 0;        // messages that are there before their turn
};

// The stages of one split and micro-batch size: kinds of layers are looked at once, so that searches may ask for many.
// Thread-safe. The job must outlive it.
class StageMemoryModel {
 public:
  StageMemoryModel(const Job& job, const Split& split, std::int64_t micro_batch, Treatments treatments = {});

  // What the layers of the model count of tables that an earlier layer holds already.
  double shared_parameters() const;
  double shared_frozen() const;  // the same of tables that are not trained

  // Kept by one layer of the model per micro-batch in flight.
  double kept_bytes(int layer, int treatment) const;
  // Short-lived, while one layer of the model runs backward.
  double working_bytes(int layer, int treatment) const;

  // The strategy has this split and micro-batch size.
  StageMemory estimate(const Strategy& strategy, const StagePlan& stage, std::int64_t stage_index) const;
  // The same for whoever knows the setting of many stages already.
  StageMemory estimate(const Strategy& strategy, const StagePlan& stage, const StageSetting& setting) const;

 private:
  struct Folded {
    double trained = 0, frozen = 0;
  };
  Folded folded_parameters(const Strategy& strategy, const StagePlan& stage) const;
  double listed_in_flight(const Strategy& strategy, const StagePlan& stage, std::int64_t stage_index) const;

  const Job* job_;
  std::shared_ptr<const MemoryKinds> kinds_;
};

// The stage's layers are first … last; an interleaved stage is judged by how many layers of each kind it holds, so any
// interval with these counts will do. Where it lists its chunks, by what the order of its passes holds of each:
//     in flight = max over the order of the sum of what chunks that are held keep / what all chunks keep
StageMemory stage_memory(const Job& job, const Strategy& strategy, const StagePlan& stage, std::int64_t stage_index);

// CUDA context, libraries and communicators outside the framework's allocator.
std::int64_t context_bytes(const Job& job, const Strategy& strategy);

// Bytes of training state per parameter held by every data-parallel rank together: what precision and optimizer make of
// the stack's recipe. What waits on the host is not part of it.
struct StateBytes {
  double weight = 2;         // of products; with their copies where these are of 8 or 4 bits
  double plain_weight = 2;   // of tables, norms, routers, biases and the head
  double frozen_weight = 2;  // of products whose weights are not trained
  double gradient = 4;
  double optimizer = 12;
  double rest_optimizer = 12;  // of what Muon leaves to Adam: tables, norms, biases and the head; else the same
  int weights_shared_from =
      3;  // ZeRO stage: FSDP keeps the state's weights divided in stage 2 too, beside whole copies
};
StateBytes state_bytes(const Job& job);

// The optimizer reads gradients of 16 bits as they are: Megatron's precision-aware one, which keeps moments in fewer
// bytes than fp32 or, on the host, any. Others copy them to fp32 first.
bool reads_narrow_gradients(const Job& job);

// Read and written per updated parameter: the stack's own number, or
//     2 (master + moments) + gradient + weight
// of its recipe; an optimizer with fewer bytes of moments moves that much less. Where updates are orthogonalised they
// are written and read once more, in 16 bits; `rest` are the parameters whose updates are not.
struct UpdateBytes {
  double matrices = 0;
  double rest = 0;
};
UpdateBytes update_bytes(const Job& job);

// Blocks whose activations wait on the host for their backward: the first of them. Frameworks do so without a pipeline
// and without recomputation. One layer's are on their way at a time.
std::int64_t offloaded_layers(const Job& job, const Strategy& strategy, const Recomputation& recompute);

// Micro-batches in flight on a stage, what its schedule holds (schedule::in_flight). Where exchanges of experts hide
// behind another micro-batch and the pipeline is interleaved, the forward of the next chunk runs beside a backward:
//     min(2(p-s-1) + (v-1) g + 2, m v) / v
double in_flight(const Job& job, const Split& split, Schedule kind, const schedule::Shape& shape, std::int64_t stage);

// The exchanges of this job's experts hide behind another micro-batch.
bool overlaps_experts(const Job& job, const Split& split);

}  // namespace nest::cost
