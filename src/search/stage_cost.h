// Time and memory of one stage from the sums over its layers. The one place where the cost of an option is defined; the
// solver and the evaluator both use it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/checked.h"
#include "search/plan.h"
#include "search/problem.h"

namespace nest::search {

// Of the layers of one stage.
struct IntervalSums {
  std::int64_t time_ps = 0;
  std::array<std::int64_t, 3> recompute_ps{};  // [0] = 0
  std::int64_t hide_ps = 0;
  std::array<std::int64_t, 3> kept_bytes{};
  std::array<std::int64_t, 3> working_bytes{};  // maxima
  std::int64_t gather_bytes = 0;                // maximum
  std::int64_t dense_parameters = 0, expert_parameters = 0;
};

struct ZeroCost {
  std::int64_t per_micro_batch_ps = 0;  // added to t_s
  std::int64_t per_iteration_ps = 0;    // y_s
  std::int64_t state_bytes = 0;         // weights, gradients, optimizer state, gathered weights
};

inline std::int64_t exposed(std::int64_t traffic_ps, std::int64_t hide_ps, const StateRecipe& state) {
  const auto least = static_cast<std::int64_t>(static_cast<Int128>(traffic_ps) * state.exposed_1024ths >> 10);
  return std::max({std::int64_t{0}, traffic_ps - hide_ps, least});
}

// One stage with a given sharding group. Halves of the traffic: reduce-scatter of gradients, all-gather of weights,
// both inside the sharding group; `between` is the all-reduce of gradients between sharding groups.
struct Sharded {
  std::int64_t scatter_ps, gather_ps, between_ps;
  std::int64_t weight_bytes, gradient_bytes, optimizer_bytes, parameters;  // of one member

  Sharded(const StateRecipe& state, const ShardGroup& group, const IntervalSums& sums) {
    const std::int64_t dense = sums.dense_parameters, expert = sums.expert_parameters;
    const std::int64_t dense_gradients = dense * state.gradient_traffic_bytes;
    scatter_ps = group.dense_shard.at(dense_gradients);
    gather_ps = group.dense_shard.at(dense * state.weight_traffic_bytes);
    between_ps = 2 * group.dense_replicate.at(dense_gradients);
    weight_bytes = ceil_div(state.weight_bytes * dense, group.dense_degree);
    gradient_bytes = ceil_div(state.gradient_bytes * dense, group.dense_degree);
    optimizer_bytes = ceil_div(state.optimizer_bytes * dense, group.dense_degree);
    parameters = ceil_div(dense, group.dense_degree);
    if (expert == 0) return;
    const std::int64_t expert_gradients = expert * state.gradient_traffic_bytes;
    scatter_ps += group.expert_shard.at(expert_gradients);
    gather_ps += group.expert_shard.at(expert * state.weight_traffic_bytes);
    between_ps += 2 * group.expert_replicate.at(expert_gradients);
    weight_bytes += ceil_div(state.weight_bytes * expert, group.expert_degree);
    gradient_bytes += ceil_div(state.gradient_bytes * expert, group.expert_degree);
    optimizer_bytes += ceil_div(state.optimizer_bytes * expert, group.expert_degree);
    parameters += ceil_div(expert, group.expert_degree);
  }
};

// ZeRO 0: all-reduce of the gradients, once.           ZeRO 1: reduce-scatter gradients, all-gather weights, once.
// ZeRO 2: gradients are scattered every micro-batch.   ZeRO 3: weights are gathered twice per micro-batch as well.
inline ZeroCost zero_cost(const StateRecipe& state, int zero, const Sharded& shard, const IntervalSums& sums) {
  ZeroCost cost;
  const std::int64_t hide = sums.hide_ps;
  if (zero == 0) {
    cost.per_iteration_ps = exposed(2 * shard.scatter_ps + shard.between_ps, hide, state);
  } else if (zero == 1) {
    cost.per_iteration_ps = exposed(shard.scatter_ps + shard.between_ps + shard.gather_ps, hide, state);
  } else if (zero == 2) {
    cost.per_micro_batch_ps = exposed(shard.scatter_ps, hide, state);
    cost.per_iteration_ps = exposed(shard.between_ps + shard.gather_ps, hide, state);
  } else {
    cost.per_micro_batch_ps = exposed(shard.scatter_ps + 2 * shard.gather_ps, 2 * hide, state);
    cost.per_iteration_ps = exposed(shard.between_ps, hide, state);
  }
  const std::int64_t all = sums.dense_parameters + sums.expert_parameters;
  cost.state_bytes = (zero >= 3 ? shard.weight_bytes + sums.gather_bytes : state.weight_bytes * all) +
                     (zero >= 2 ? shard.gradient_bytes : state.gradient_bytes * all) +
                     (zero >= 1 ? shard.optimizer_bytes : state.optimizer_bytes * all);
  const std::int64_t updated = zero >= 1 ? shard.parameters : all;
  cost.per_iteration_ps +=
      Line{0, state.step_ps_per_mi_sharded}.at(updated) + Line{0, state.step_ps_per_mi_local}.at(all);
  return cost;
}

// Activations in flight on stage s, in chunks of 1/v of the stage.
inline std::int64_t in_flight(const Schedule& schedule, std::int64_t stages, std::int64_t micro_batches,
                              std::int64_t s) {
  const std::int64_t v = schedule.chunks;
  if (schedule.kind == ScheduleKind::gpipe) return micro_batches;
  if (v == 1) return std::min(stages - s, micro_batches);
  return std::min(2 * (stages - s - 1) + (v - 1) * stages + 1, micro_batches * v);
}

inline std::int64_t iteration_time(std::int64_t micro_batches, std::int64_t v, std::int64_t slowest, std::int64_t sum,
                                   std::int64_t per_iteration) {
  return micro_batches * slowest + (sum - slowest) / v + per_iteration;
}

}  // namespace nest::search
