// One step of one stage of a plan as nodes that wait for each other: what every rank of the stage executes, before it
// is known which rank it is.
//
// Order. Passes come in the order of the schedule (schedule/rules.h), layers in the order of the pass. All compute
// of a rank is one chain. A collective or message is written where a rank issues it, and waits for the compute before
// it; so of two that are ready, the one with the smaller number comes first, on every rank of a group alike.
// Collectives of one group follow each other. A receive is posted when the pass before it has ended, with interleaved
// chunks one pass earlier; so sends may wait for their receives as well.
//
// State. Gradients are exchanged layer by layer after the last backward of the layer (ZeRO 2 and 3: after every one),
// behind compute where the stack overlaps; the optimizer waits for all. Weights are gathered one layer ahead, for every
// pass (ZeRO 3) or for the first forward of a step (ZeRO 1 and 2: the exchange that the step before left to do); a
// stack without that overlap gathers after the optimizer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/tables.h"
#include "exporter/chakra_groups.h"
#include "exporter/chakra_layer.h"
#include "schedule/pipeline.h"

namespace nest::exporter {

enum class TraceCollective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all };

struct TraceNode {
  enum class Kind : std::uint8_t { compute, collective, send, receive };
  Kind kind = Kind::compute;
  std::string name;
  std::int64_t duration_us = 0;  // compute
  std::int64_t operations = 0;   // compute: floating-point operations
  std::int64_t bytes = 0;        // compute: read and written; else what this rank puts in
  TraceCollective collective = TraceCollective::all_reduce;
  TraceGroup group = TraceGroup::tensor;
  std::int64_t peer_stage = 0;       // of a message; its peer is the same inner rank there
  std::int32_t tag = 0;              // of a message: one per direction, micro-batch and chunk
  std::vector<std::uint64_t> after;  // earlier nodes, rising
};

// What the traces of all stages share.
class TracePlan {
 public:
  // The strategy must be sound.
  TracePlan(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages);

  const simulate::PlanWork& work() const { return work_; }
  std::vector<TraceNode> stage(std::int64_t stage) const;
  // How many nodes stage() gives at most, without building them.
  double node_bound(std::int64_t stage) const;

 private:
  std::vector<TracedLayer> layers_of(std::int64_t stage) const;

  const cost::Job& job_;
  const Strategy& strategy_;
  const std::vector<StagePlan>& stages_;
  simulate::PlanWork work_;
  cost::PriceTable table_;
  schedule::Chain chain_;
  cost::SyncRule rule_;
  cost::PricingContext context_;
};

}  // namespace nest::exporter
