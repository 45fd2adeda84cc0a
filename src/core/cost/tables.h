// The cost model as tables of numbers: what a search needs, and what evaluate() adds up. Everything about a stage is a
// sum (or a maximum) over its layers, so that intervals of layers can be priced from prefix sums.
//
// Stage s with layers I, for one micro-batch of one replica:
//     t_s = sum_I (forward + backward + recompute) + messages + sharding per micro-batch + head gradients at once
//           + alone_share * sum_I alone            where experts overlap: what passes take that meet none to pair with
//     y_s = sharding per step + optimizer + fixed overhead + head gradients that the drain does not hide
// Messages: a stage waits for the activations of its predecessor and for the gradients of its successor, each once per
// chunk; interleaved schedules pass the wrap-around as well. What is exposed of them: cost/messages.h.
//
// Sharding traffic of P dense and E expert parameters (g bytes of gradient, w bytes of weight per parameter), as often
// as cost/sharding_traffic.h says:
//     scatter = shard(g P) + shard(g E)
//     gather  = shard(w P) + shard(w E)   and a latency per tensor where a stack gathers tensor by tensor, ZeRO < 3
//     between = replicate(g P) + replicate(g E)     across = replicate(w P) + replicate(w E)
// P and E are trained. Frozen weights travel where they are sharded at rest, with every gather.
//
// What of it is exposed: max(traffic - hide, fraction * traffic), with
//
//                       hide                                                              fraction
//     per micro-batch   0.66 (forward + backward + recompute); ZeRO 2, which              0.34
//                       scatters in backward only: two thirds of that
//     per step          0.8 (forward + backward) of one micro-batch, times the            0.17, or the share of the
//                       stages where chunks interleave                                    bucket that is filled last;
//                                                                                         1 / v of v chunks whose
//                                                                                         exchanges are aligned
//
// where forward and backward are those of the stage's blocks. On devices without multiprocessors to share (TPU) the
// hide per micro-batch is 1 and its fraction 0. A stack without overlap hides nothing. One that gathers weights tensor
// by tensor hides gradients only, behind backward only, fraction 0.17; under ZeRO 1 its 2 scatter + between may hide,
// its gather adds to that.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/index.h"
#include "cost/group_time.h"
#include "cost/job.h"
#include "cost/layer_price.h"
#include "cost/memory.h"
#include "cost/muon.h"
#include "cost/offload.h"
#include "cost/overlap.h"
#include "cost/sharding_traffic.h"
#include "schedule/pipeline.h"

namespace nest::cost {

// Prices for one split and micro-batch.
struct PriceTable {
  Treatments treatments;          // by which the prices of layers are listed
  std::vector<LayerPrice> kinds;  // by index into Model::kinds; as time_layer() fills them in
  // What passes of each kind take by the formula, where the least law says less: traffic hides behind what is expected.
  std::vector<schedule::PassSeconds> expected;
  std::vector<std::int64_t> tensors;   // weights of each kind: calls of stacks that gather tensor by tensor
  std::vector<double> cut_bytes;       // by position: what one device sends when the chain is cut after that layer
  double wrap_bytes = 0;               // the same from the last stage to the first, for interleaved schedules
  std::int64_t tied_parameters = 0;    // counted by embedding and head each, on a device that holds both: once
  double layers_way_s = 0;             // by which a stage of all layers is longer whose first ones are on the host
  std::int64_t copied_parameters = 0;  // the same of the table that layers which predict further tokens look up
  std::shared_ptr<const MatrixTable> matrices;  // where the optimizer orthogonalises their updates, else null

  // What a stage that has such layers counts twice.
  std::int64_t repeated_parameters(bool embeds, bool predicts, bool heads) const {
    return (embeds && predicts ? copied_parameters : 0) + (heads && (embeds || predicts) ? tied_parameters : 0);
  }
};

PriceTable price_table(const Job& job, const Split& split, std::int64_t micro_batch, Treatments treatments = {});

// The sets of modules that stages name.
Treatments treatments_of(const std::vector<StagePlan>& stages);

// Seconds that the backward pass of a stage takes longer for what it recomputes.
struct StageAgain {
  double seconds = 0;
  double drain_s = 0;  // of them, by which the drain is longer: none where only some of the layers are recomputed
  double way_s = 0;    // of them, waiting for what is on the host
};
StageAgain stage_again(const Job& job, const PriceTable& table, const StagePlan& stage, std::int64_t chunks);

// How a stack's traffic is cut into calls and hides: the numbers of the comment above.
struct SyncRule {
  double gradient_bytes = 4;  // per parameter, through the network
  double weight_bytes = 2;
  double step_hide = 0;  // of forward + backward
  double step_exposed = 1;
  bool aligned = false;  // stages exchange gradients together: of v chunks, one is left when the passes end
  double micro_hide = 0;
  double micro_exposed = 1;
  bool hides_backward_only = false;  // step_hide counts backward alone, and gathers hide behind nothing
  bool per_tensor = false;
  ShardingTable often = sharding_traffic(false);
  int weights_shared_from = 3;  // row from which weights are divided at rest, frozen ones too
  // The optimizer's pass over its state.
  UpdateBytes update;   // read and written per parameter, on the device
  double tensor_s = 0;  // of every tensor, however small: kernels that cast its gradient and its weight
  OffloadRule offload;
  double memory_bytes_per_s = 1;
  // By the least law: what comes before the update counts apart; and what experts wait for, behind which traffic may
  // hide, is not known.
  bool least = false;
  bool hides_what_it_can = false;

  // Of what is exchanged once per step, what is exposed at least.
  double step_fraction(std::int64_t chunks) const {
    return aligned && chunks > 1 ? std::max(step_exposed, 1 / real(chunks)) : step_exposed;
  }
  // By sharding_row(), as everything below that takes a ZeRO stage.
  const ShardingTraffic& traffic(int zero) const { return often[at(zero)]; }
};
SyncRule sync_rule(const Job& job, std::int64_t stages);

// shard_lines with the calls of the stack. `parameters_per_call` is the size of a bucket or, where weights are sharded
// layer by layer, of a block. `rule` is sync_rule() of the job.
ShardLines sync_lines(const Job& job, const Strategy& strategy, const PriceTable& table, int zero, std::int64_t degree);
ShardLines sync_lines(const Job& job, const SyncRule& rule, const PriceTable& table, int zero,
                      const ShardGroups& groups);
// The same of lines of one call each: the latency of all calls but the first becomes part of the slope.
ShardLines fold_calls(const Job& job, const SyncRule& rule, const PriceTable& table, int zero, const ShardLines& lines);
double parameters_per_call(const Job& job, const PriceTable& table, int zero, std::int64_t replicas);

// Sums over the layers of one stage.
struct StageSums {
  double forward_s = 0;
  double backward_s = 0;      // without what is deferred
  double hide_forward_s = 0;  // of the blocks, behind which traffic can hide
  double hide_backward_s = 0;
  double tp_s = 0, cp_s = 0, ep_s = 0;
  double alone_forward_s = 0, alone_backward_s = 0, alone_ep_s = 0;  // as LayerPrice says
  double deferred_s = 0;                                   // weight gradients of the head that may wait (HeadCost)
  double weight_s = 0;                                     // of backward_s, weight gradients
  double dense_parameters = 0, expert_parameters = 0;      // trained
  double frozen_dense_bytes = 0, frozen_expert_bytes = 0;  // where weights are gathered
  double tensors = 0;
  // Where the optimizer orthogonalises updates: which layers, and the dense parameters whose updates it does not.
  const MatrixTable* matrices = nullptr;
  int first = 0, last = -1;
  const std::vector<ChunkPlan>* chunks = nullptr;  // or these instead, where a stage lists them
  double rest_parameters = 0;
};
// Share of a stage's passes that run alone.
inline double alone_share(const Job& job, const Strategy& strategy, double micro_batches,
                          const Recomputation& recompute) {
  if (!job.stack.expert_overlap) return 0;
  return can_pair(job.stack, recompute) ? alone_share(strategy, micro_batches) : 1;
}
// Layers first … last. `stages` > 1 lets stacks that do so defer the head's weight gradient.
StageSums sum_stage(const Job& job, const PriceTable& table, int first, int last, std::int64_t stages);
// The layers of a stage, which must outlive the sums.
StageSums sum_stage(const Job& job, const PriceTable& table, const StagePlan& stage, std::int64_t stages);

// F, I and W of a stage that has its share of these layers, without what is recomputed: what tells how much of a bubble
// an order fills (schedule/filled.h).
schedule::PassSeconds mean_stage(const StageSums& model, std::int64_t stages);

// Of any layer but the last, the share of its passes that runs backward, at least; whatever is recomputed adds to it.
double least_back_share(const Job& job, const PriceTable& table);
// The same of the exchanges of state in a micro-batch.
double least_back_share(const ShardingTraffic& often);

// What of traffic is exposed.
inline double exposed_s(double traffic_s, double hide_s, double fraction) {
  return std::max({0.0, traffic_s - hide_s, fraction * traffic_s});
}

// Seconds of a stage's sharding traffic, if nothing hid it.
struct StageTraffic {
  double micro_s = 0;   // per micro-batch
  double reduce_s = 0;  // per step, before the update
  double gather_s = 0;  // per step, after it
};
StageTraffic stage_traffic(const SyncRule& rule, const StageSums& sums, const ShardLines& lines, int zero);

// What a stage pays for its state: all of its cost that does not depend on what it recomputes.
struct StateCost {
  double micro_s = 0;         // of traffic per micro-batch, if nothing hid it
  double sync_exposed_s = 0;  // per step
  double optimizer_s = 0;
  // By the least law, of a stage in a pipeline, instead of a part of sync_exposed_s: gradients that it waits for after its
  // own passes, m of them. No stage updates before all have them:  T >= max_s (m t_s + reduce_s) + max_s (the rest of y_s)
  double reduce_s = 0;
  double exposed_share = 0;  // of gradients and weights that travel once per step
};
StateCost state_cost(const SyncRule& rule, const Strategy& strategy, const StageSums& sums, const ShardLines& lines,
                     int zero);

// What depends on it, beside the recomputation itself: as StageCost says.
inline double micro_exposed_s(const SyncRule& rule, const StageSums& sums, const StateCost& state, int zero,
                              double again_s) {
  if (state.micro_s <= 0) return 0;
  if (rule.hides_what_it_can) return rule.micro_exposed * state.micro_s;
  const double hide_s = rule.micro_hide * (sums.hide_forward_s + sums.hide_backward_s + again_s);
  // What comes in backward only has less to hide behind.
  const bool in_forward = rule.traffic(zero).forward_gathers > 0;
  return exposed_s(state.micro_s, in_forward ? hide_s : hide_s * 2 / 3, rule.micro_exposed);
}

// Whether the head's weight gradients wait for the drain.
inline bool defers_head(const SoftwareStack& stack, const Strategy& strategy) {
  return stack.defer_head_gradient && strategy.pp > 1 && strategy.defer_head;
}
// Weight gradients of the head, d seconds of each of m micro-batches. Of w = min(m, 22) that wait for the drain, of
// (p - 1) / v backward passes, what is longer counts once per step; those of the other m - w are part of every
// micro-batch's time on the mean. Where none waits, w = 0.
struct HeadCost {
  double micro_s = 0;  // d (m - w) / m
  double step_s = 0;   // max(0, w d - drain); by the least law 0
};
HeadCost head_cost(const Job& job, const Strategy& strategy, const StageSums& sums, double drain_again_s);
// Of two micro-batches of mean length, by how much the first, which waits, and the last are shorter:
// d max(0, 2 (m - w) / m - 1), 0 where none waits (schedule::StepForm::short_s).
double head_short_s(const Job& job, const Strategy& strategy, double deferred_s);
// The same of the first alone: d (m - w) / m.
double head_first_short_s(const Job& job, const Strategy& strategy, double deferred_s);

struct StageCost {
  double micro_exposed_s = 0;  // sharding traffic per micro-batch
  double sync_exposed_s = 0;   // per step
  double optimizer_s = 0;
  HeadCost head;
  double reduce_s = 0, exposed_share = 0;  // as StateCost says
};
// `rule` is sync_rule() of the job.
StageCost stage_cost(const Job& job, const SyncRule& rule, const Strategy& strategy, const StageSums& sums,
                     const ShardLines& lines, int zero, const StageAgain& again);

}  // namespace nest::cost
