// What every stage of a plan does in one step, by the cost model's tables: the durations that a simulation takes as
// given, and the traffic that it plays through.
//
// Taken as given: compute with the collectives of tensors and contexts inside a stage, optimizer, fixed overhead, the
// latencies of collective calls, what share of an exchange the software exposes, and what share of a link's capacity a
// dispatcher of tokens reaches. Worked out by playing: when everything happens, and how long bytes take.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/evaluate.h"
#include "groups/rank_groups.h"
#include "schedule/pipeline.h"
#include "simulate/group_flows.h"

namespace nest::simulate {

// One exchange of state among the replicas of a stage.
struct StateCall {
  groups::Weights weights = groups::Weights::dense;
  bool between = false;  // between the sharding groups; else inside them
  double bytes = 0;      // of the buffer, times the passes over it
  double calls = 0;      // passes over parts of it, each of which has its latencies
  double predicted_s = 0;
  double call_bytes = 0;  // of one pass, for which its algorithm is chosen
};

// Exchanges that follow each other.
struct StateTraffic {
  std::vector<StateCall> calls;
  double exposed = 1;  // share that compute waits for; the rest runs behind compute

  double predicted_s() const;
};

// Tokens on their way to experts and back in one pass of one micro-batch over all chunks (cost/dispatch.h): what every
// rank of a group sends, its bytes counted as if links were used at their full capacity.
struct TokenTraffic {
  double inside_bytes = 0;    // to the other ranks of its innermost unit together
  double unit_bytes = 0;      // to each other unit
  double gathered_bytes = 0;  // of the buffers of all-gathers and reduce-scatters instead
  double calls = 0;           // exchanges, each of which has its latencies
  double latency_s = 0;
  double predicted_s = 0;
  double exposed = 1;  // share that compute waits for; the rest runs behind compute

  bool empty() const { return predicted_s <= 0; }
  double exposed_s() const { return exposed * predicted_s; }
};

// What a chunk has of the work of its stage.
struct ChunkShare {
  double forward = 1, backward = 1;  // of passes; backward without weight gradients that are computed apart
  double weight = 1;
  double to_experts = 1, from_experts = 1;
  double state = 1;  // of what is exchanged per micro-batch
};

struct StageWork {
  StageTime time;              // of one micro-batch, as priced
  double forward_s = 0;        // of one micro-batch, all chunks, without waiting for routed tokens
  double backward_s = 0;       // with recomputation
  double weight_s = 0;         // of it, weight gradients, where they are computed apart
  TokenTraffic to_experts;     // of a forward pass
  TokenTraffic from_experts;   // of a backward pass, with what is recomputed
  double tokens_again_s = 0;   // exposed, of what is recomputed
  double head_gradient_s = 0;  // of one micro-batch, where it is put off to the drain
  StateTraffic in_forward;     // of one micro-batch (ZeRO 3)
  StateTraffic in_backward;    // (ZeRO 2 and 3)
  StateTraffic reduce;         // of one step, before the optimizer
  StateTraffic gather;         // of one step, after it
  double optimizer_s = 0;
  std::int64_t dense_degree = 1;
  std::int64_t expert_degree = 1;
  std::vector<ChunkShare> chunks;
};

struct PlanWork {
  std::vector<StageWork> stages;
  groups::Kind routed = groups::Kind::expert;  // ranks among which tokens travel
  bool forwards = false;                       // in copies that units send on (cost/dispatch.h)
  bool pairs_passes = false;           // tokens travel behind the pass of another micro-batch too (cost/overlap.h)
  std::vector<double> boundary_bytes;  // that each device of stage s sends to its counterpart in stage s+1, per chunk
  double wrap_bytes = 0;               // from the last stage to the first, between chunks
  std::vector<double> link_bytes;      // instead, where stages list their chunks: between positions k and k+1
  schedule::Sends sends;               // who waits for messages
  bool aligned_gradients = false;      // stages after the first exchange theirs when their passes have ended
  std::int64_t micro_batches = 1;
  std::int64_t put_off = 0;  // micro-batches whose head gradient waits for the drain
  double step_s = 0;         // fixed overhead of a step

  // Of a message over a link of the chain: over the border after a stage; after the last one, to the first.
  double message_bytes(const schedule::Chain& chain, std::int64_t link) const {
    if (!link_bytes.empty()) return link_bytes[static_cast<std::size_t>(link)];
    const auto s = static_cast<std::size_t>(chain.border(link));
    return s < boundary_bytes.size() ? boundary_bytes[s] : wrap_bytes;
  }
};

// The strategy must be sound (refuse_strategy).
PlanWork plan_work(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages);

}  // namespace nest::simulate
