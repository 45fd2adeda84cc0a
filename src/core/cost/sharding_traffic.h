// What the state of replicated weights puts on the network: the one table of it.
//
// The replicas of a stage's weights (dense and expert weights have groups of their own, groups/rank_groups.h) form
// sharding groups of `degree` neighbouring ranks. Per parameter, with g bytes of gradient and w bytes of weight:
//
//     scatter    reduce-scatter of g bytes inside a sharding group
//     gather     all-gather of w bytes inside a sharding group
//     between    one half of an all-reduce (a reduce-scatter or an all-gather) of g / degree bytes between the sharding
//                groups, among ranks with the same share; nothing where one group holds all replicas
//     across     an all-gather of w / degree bytes between the same ranks
//
// How often:
//
//               every micro-batch                  every step
//               forward   backward   backward      before the update      after it
//               gather    gather     scatter       scatter    between     gather    across
//     ZeRO 0                                       2          2
//     ZeRO 1                                       1 (*)      2           1
//     ZeRO 2                         1                        2           1
//     ZeRO 3    1         1          1                        2
//     ZeRO 2 (**)                                  1          2           1
//     ZeRO 3 (**)  1      1                        1          2
//     hybrid    1         1          1                        1                     1
//
// (*) 2 in stacks that all-reduce gradients and then use a part. Two scatters are an all-reduce: its second half
// gathers gradients, the same bytes again. FSDP is ZeRO 3, FSDP that keeps weights after forward is ZeRO 2; hybrid
// sharding (HSDP, several optimizer instances) is the same with a degree below the number of replicas. In the row
// `hybrid` (Megatron's HFSDP) the optimizer's state is divided over all replicas besides: gradients are scattered between
// the groups with the last micro-batch, new weights gathered between them with the first.
//
// (**) FSDP2 in a pipeline: gradients are summed over the micro-batches and exchanged with the last one's backward
// (PyTorch's pipeline stages switch the exchange off until then, backward_maybe_with_nosync). ZeRO 2, torchtitan's
// fsdp_reshard_after_forward "default" and "never": what the first micro-batch gathers stays for all. ZeRO 3,
// "always": weights go after each forward and come back for each backward. An upper bound: those that a backward
// gathered stay for a forward that follows it at once. Megatron-FSDP knows nothing of the
// pipeline around it: its hooks gather and scatter every layer with every micro-batch, in stages as without them.
#pragma once

#include <array>

#include "plan/plan.h"

namespace nest::cost {

struct ShardingTraffic {
  // per micro-batch
  double forward_gathers = 0;
  double backward_gathers = 0;
  double backward_scatters = 0;
  // per step
  double step_scatters = 0;
  double between = 0;
  double step_gathers = 0;
  double across = 0;

  constexpr double micro_gathers() const { return forward_gathers + backward_gathers; }
  // Of what a micro-batch exchanges, the share of its forward pass, every call counted alike.
  constexpr double forward_share() const {
    const double calls = micro_gathers() + backward_scatters;
    return calls > 0 ? forward_gathers / calls : 0;
  }
};

// Rows of the table: ZeRO stages 0 … 3, and the hybrid. A higher row shards all that a lower one does.
inline constexpr int kHybridRow = 4;
constexpr int sharding_row(int zero, bool outer) { return zero == 3 && outer ? kHybridRow : zero; }
inline int sharding_row(const StagePlan& stage) { return sharding_row(stage.zero, stage.zero_outer); }

using ShardingTable = std::array<ShardingTraffic, kHybridRow + 1>;

// `all_reduces`: the stack all-reduces gradients under ZeRO 1. `in_pipeline`: rows (**).
constexpr ShardingTable sharding_traffic(bool all_reduces, bool in_pipeline = false) {
  return {{
      {0, 0, 0, 2, 2, 0},                                                                   // ZeRO 0
      {0, 0, 0, all_reduces ? 2.0 : 1, 2, 1},                                               // ZeRO 1
      in_pipeline ? ShardingTraffic{0, 0, 0, 1, 2, 1} : ShardingTraffic{0, 0, 1, 0, 2, 1},  // ZeRO 2
      in_pipeline ? ShardingTraffic{1, 1, 0, 1, 2, 0} : ShardingTraffic{1, 1, 1, 0, 2, 0},  // ZeRO 3
      {1, 1, 1, 0, 1, 0, 1},                                                                // hybrid
  }};
}

}  // namespace nest::cost
