// How long the uplinks of a level work for a step, at least: what passes them, whoever waits for it and whenever it travels.
//
// A step takes at least as long as its busiest link works, and of alike links the mean works no longer than the busiest. Level l of
// the fabric has units of U devices whose uplinks carry C bytes per second together. Where units hold whole numbers of
// blocks of A devices (groups/rank_groups.h) and of pipelines, or the other way round, a pipeline of p stages lies in
//     u = 1 unit with others, or p A / U of them, rounded up
// and of every micro-batch with v chunks its ranks send over their u uplinks, forward and backward,
//     2 A ( h v cut + w wrap ) bytes        h = p - 1 where U <= A, else u - 1;  w messages from the last stage to the first if u > 1
// A ring of n ranks leaves every unit in which some of them are, but not all: (n - 1) / n of the bytes that they exchange,
// and so do several rings that share them. With g such groups of a stage in a unit, stages of B_s bytes pass
//     g (n - 1) / n sum_s B_s / (p where U <= A, else u) bytes over the mean uplink,
// and those of the first stages, k = min(p, U / A) of them where U > A, else 1, over that of the first unit.
// 0 where nothing is known: tori, units of different sizes, ranks that lie unevenly, exchanges that are no rings.
#pragma once

#include <array>

#include "cost/group_time.h"
#include "cost/tables.h"

namespace nest::cost {

using LevelSeconds = std::array<double, cluster::kMaxLevels>;

// Of one micro-batch.
LevelSeconds message_load(const cluster::Cluster& cluster, const Strategy& strategy, double cut_bytes,
                          double wrap_bytes);

// Per byte of state: of one stage, on the uplink of a unit where it is; of uneven groups on the mean uplink of all units.
struct StateLoad {
  LevelSeconds dense_shard{}, dense_replicate{}, expert_shard{}, expert_replicate{};
  // Over how many units the state of all stages is divided, and how many stages of a pipeline share the first unit.
  LevelSeconds apart{}, together{};
};
// `groups` by the least law.
StateLoad state_load(const cluster::Cluster& cluster, const Strategy& strategy, const ShardGroups& groups);

// What a stage with so many parameters puts on its uplinks once per step: before the update, and after it.
struct StepLoad {
  double reduce_s = 0, gather_s = 0;
};
StepLoad step_load(const SyncRule& rule, const StateLoad& load, std::size_t level, int zero, double dense_parameters,
                   double expert_parameters);

// Of a step of stages that hold so many parameters together, all sharded alike, on the mean uplink.
LevelSeconds state_seconds(const SyncRule& rule, const StateLoad& load, int zero, double micro_batches,
                           double dense_parameters, double expert_parameters);

}  // namespace nest::cost
