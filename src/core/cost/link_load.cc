#include "cost/link_load.h"

#include <algorithm>

#include "base/checked.h"
#include "base/index.h"
#include "groups/rank_groups.h"
#include "schedule/rules.h"

namespace nest::cost {
namespace {

// How the pipelines of a strategy lie in the units of a level.
struct PipelineUnits {
  bool known = false;
  double units = 1;         // that one pipeline lies in
  double crossed = 0;       // boundaries of its stages that all messages cross from unit to unit
  double stages_apart = 1;  // over which the bytes of all stages are divided, per uplink
  double stages_together = 1;
  double bytes_per_s = 1;  // of all uplinks of a unit
};

PipelineUnits units_of(const cluster::Cluster& cluster, const groups::RankGroups& ranks, std::size_t level) {
  const cluster::Fabric& fabric = cluster.fabric;
  PipelineUnits lie;
  const std::int64_t unit = fabric.unit[level], block = ranks.block(), pitch = ranks.pitch(), p = ranks.stages();
  // What leaves a node through ports does not pass the uplinks below them.
  if (fabric.has_rails() && level < fabric.rail_level) return lie;
  const auto divide = [](std::int64_t a, std::int64_t b) { return a % b == 0 || b % a == 0; };
  if (!fabric.regular || !divide(unit, block) || !divide(unit, pitch)) return lie;
  lie.known = true;
  lie.bytes_per_s = fabric.capacity[level] * (fabric.lanes(level) ? real(fabric.unit[fabric.rail_level]) : 1);
  if (unit <= block) {
    lie.units = real(p * (block / unit));
    lie.crossed = real(p - 1);
    lie.stages_apart = real(p);
  } else if (pitch > unit) {
    lie.units = lie.stages_apart = real(ceil_div(p * block, unit));
    lie.crossed = lie.units - 1;
    lie.stages_together = real(std::min(p, unit / block));
  } else {
    lie.stages_together = real(p);
  }
  return lie;
}

bool is_known(const cluster::Cluster& cluster) {
  return !cluster.torus && cluster.measured.empty() && cluster.algorithms.as_nccl();
}

}  // namespace

LevelSeconds message_load(const cluster::Cluster& cluster, const Strategy& strategy, double cut_bytes,
                          double wrap_bytes) {
  LevelSeconds seconds{};
  if (!is_known(cluster) || strategy.pp < 2) return seconds;
  const groups::RankGroups ranks(strategy);
  const auto v = real(strategy.virtual_stages);
  const auto wraps = real(schedule::rule_of(strategy.schedule).wraps(strategy.virtual_stages));
  for (std::size_t l = 1; l < cluster.fabric.levels; ++l) {
    const PipelineUnits lie = units_of(cluster, ranks, l);
    if (!lie.known || lie.units <= 1) continue;
    const double bytes = 2 * real(ranks.block()) * (lie.crossed * v * cut_bytes + wraps * wrap_bytes);
    seconds[l] = bytes / lie.units / lie.bytes_per_s;
  }
  return seconds;
}

StateLoad state_load(const cluster::Cluster& cluster, const Strategy& strategy, const ShardGroups& groups) {
  StateLoad load;
  if (!is_known(cluster)) return load;
  const groups::RankGroups ranks(strategy);
  if (groups.dense_least.known) {
    for (std::size_t l = 1; l < cluster.fabric.levels; ++l) {
      const double units = real(ceil_div(strategy.devices_spanned(), cluster.fabric.unit[l]));
      load.dense_shard[l] = groups.dense_least.shard.uplinks[l] / units;
      load.expert_shard[l] = groups.expert_least.shard.uplinks[l] / units;
      load.dense_replicate[l] = groups.dense_least.replicate.uplinks[l] / units / real(groups.dense_degree);
      load.expert_replicate[l] = groups.expert_least.replicate.uplinks[l] / units / real(groups.expert_degree);
      load.apart[l] = 1;
      load.together[l] = 1;
    }
    return load;
  }
  for (std::size_t l = 1; l < cluster.fabric.levels; ++l) {
    const PipelineUnits lie = units_of(cluster, ranks, l);
    if (!lie.known) continue;
    const auto per_byte = [&](const cluster::GroupLayout& layout, std::int64_t degree) {
      if (layout.members < 2 || layout.most[l] >= layout.members) return 0.0;
      const double share = real(layout.members - 1) / real(layout.members);
      return real(layout.groups_inside[l]) * share / lie.bytes_per_s / real(degree);
    };
    load.apart[l] = lie.stages_apart;
    load.together[l] = lie.stages_together;
    load.dense_shard[l] = per_byte(groups.dense_shard, 1);
    load.expert_shard[l] = per_byte(groups.expert_shard, 1);
    load.dense_replicate[l] = per_byte(groups.dense_replicate, groups.dense_degree);
    load.expert_replicate[l] = per_byte(groups.expert_replicate, groups.expert_degree);
  }
  return load;
}

StepLoad step_load(const SyncRule& rule, const StateLoad& load, std::size_t level, int zero, double dense_parameters,
                   double expert_parameters) {
  const ShardingTraffic& often = rule.traffic(zero);
  const double shard_s = dense_parameters * load.dense_shard[level] + expert_parameters * load.expert_shard[level];
  const double replicate_s =
      dense_parameters * load.dense_replicate[level] + expert_parameters * load.expert_replicate[level];
  return {rule.gradient_bytes * (often.step_scatters * shard_s + often.between * replicate_s),
          rule.weight_bytes * (often.step_gathers * shard_s + often.across * replicate_s)};
}

LevelSeconds state_seconds(const SyncRule& rule, const StateLoad& load, int zero, double micro_batches,
                           double dense_parameters, double expert_parameters) {
  const ShardingTraffic& often = rule.traffic(zero);
  const double shard = rule.gradient_bytes * (often.step_scatters + micro_batches * often.backward_scatters) +
                       rule.weight_bytes * (often.step_gathers + micro_batches * often.micro_gathers());
  const double replicate = rule.gradient_bytes * often.between + rule.weight_bytes * often.across;
  LevelSeconds seconds{};
  for (std::size_t l = 0; l < seconds.size(); ++l) {
    if (load.apart[l] <= 0) continue;
    seconds[l] = dense_parameters * (shard * load.dense_shard[l] + replicate * load.dense_replicate[l]) +
                 expert_parameters * (shard * load.expert_shard[l] + replicate * load.expert_replicate[l]);
    seconds[l] /= load.apart[l];
  }
  return seconds;
}

}  // namespace nest::cost
