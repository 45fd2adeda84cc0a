// From a plan to a program (program.h): every forward and backward of every micro-batch on every stage in the order of
// the schedule, the messages between stages, the exchanges of state, the optimizer.
//
// Messages. A stage that does not overlap asks for a message when it has nothing else to do; it is sent when the sender
// has it and the receiver asks, and the sender goes on. Where the stack overlaps messages (interleaved schedules), only
// the exposed share is sent that late, the rest as soon as it is there.
// Exchanges of state. The exposed share is played while compute waits for it, the rest behind compute: the hidden share
// of the gradient exchange begins when the stage has as much compute left as it takes by itself; that of the weights
// before the next step runs at the start of the step. Per micro-batch (ZeRO 2, 3) the exposed share comes before the
// pass, the rest beside it.
// Routed tokens, likewise: what compute waits for is sent before a pass, the rest beside it, for all of its layers at
// once.
// A step ends when every stage has its gradients (their norm is needed everywhere), has run its optimizer and gathered
// its weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulate/exchanges.h"
#include "simulate/program.h"
#include "simulate/stage_work.h"

namespace nest::simulate {

enum class Part : std::uint8_t {
  forward,
  backward,
  head_gradient,
  message,  // between stages
  tokens,   // to experts and back
  shard,    // state exchanged per micro-batch
  reduce,   // gradients, per step
  gather,   // weights, per step
  optimizer,
  overhead,
  join,
};

// What an activity of the program is.
struct ActivityLabel {
  Part part = Part::join;
  bool hidden = false;    // behind compute
  bool backward = false;  // message or shard of a backward pass
  std::int32_t step = 0;
  std::int32_t stage = -1;     // whose track; of a message: the receiver
  std::int32_t replicas = -1;  // class of replicas; -1: all
  std::int32_t micro_batch = -1;
  std::int32_t chunk = -1;
  std::int32_t from_stage = -1;  // of a message
  std::int32_t exchange = -1;    // index into Quotient::flows, of a transfer
};

struct LoweredPlan {
  PlanWork work;
  SimulationProgram program;
  std::vector<ActivityLabel> labels;  // one per activity
  std::shared_ptr<const Exchanges> exchanges;
  std::int64_t steps = 1;

  const Quotient& symmetry() const { return exchanges->symmetry(); }
  // Exchanges whose time is taken from the cost model, with the reason.
  const std::vector<std::string>& as_predicted() const { return exchanges->as_predicted(); }
};

inline constexpr std::size_t kMostActivities = 4'000'000;
inline constexpr std::int64_t kMostRanks = 1 << 20;  // every one is looked at, to find those that are alike

// Throws InputError when there are more ranks than kMostRanks.
void refuse_ranks(const Strategy& strategy);

// The strategy must be sound. Throws InputError when there are more ranks than kMostRanks or the program would have more
// than kMostActivities. `known`: exchanges of other plans of the job's cluster, to take and to leave them.
LoweredPlan lower_plan(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                       std::int64_t steps = 1, Merge merge = Merge::alike, ExchangeCache* known = nullptr);

const char* to_string(Part part);

}  // namespace nest::simulate
