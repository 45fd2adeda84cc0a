#include "planner/traffic_floor.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "cost/constants.h"

namespace nest {

TrafficFloor::TrafficFloor(const PlanLimits& limits, const SyncRule& rule, const PairPrices& pair,
                           const SyncPrices& sync, const Strategy& strategy)
    : rule_(&rule),
      dense_(pair.dense_parameters()),
      expert_(pair.expert_parameters()),
      stages_(static_cast<double>(strategy.pp)),
      hide_s_(rule.step_hide * (strategy.virtual_stages > 1 ? stages_ : 1) * pair.hide_s()) {
  const double twice = rule.all_reduce_zero1 || rule.hides_backward_only ? 2 : 1;
  for (int group = 0; group < (sync.has_inner ? 2 : 1); ++group) {
    for (int zero = group; zero < 4; ++zero) {
      if (!limits.zero[static_cast<std::size_t>(zero)]) continue;
      const ShardLines& lines = sync.lines[group][zero == 3 ? 1 : 0];
      const double shard[2] = {lines.dense_shard.s_per_byte, lines.expert_shard.s_per_byte};
      const double replicate[2] = {lines.dense_replicate.s_per_byte, lines.expert_replicate.s_per_byte};
      Rate& rate = rates_[options_++];
      for (std::size_t kind = 0; kind < 2; ++kind) {
        const double scatter = rule.gradient_bytes * shard[kind], gather = rule.weight_bytes * shard[kind];
        const double between = 2 * rule.gradient_bytes * replicate[kind];
        rate.each[kind] = zero == 2 ? scatter : zero == 3 ? scatter + 2 * gather : 0;
        rate.once[kind] = zero == 0   ? 2 * scatter + between
                          : zero == 1 ? twice * scatter + between + gather
                          : zero == 2 ? between + gather
                                      : between;
      }
    }
  }
}

double TrafficFloor::seconds(double weight) const {
  constexpr double kRounding = 1e-12;
  if (options_ == 0) return constants::kStep_s;
  double least = 0, hidden = 0;
  for (std::size_t kind = 0; kind < 2; ++kind) {
    const double parameters = kind == 0 ? dense_ : expert_;
    if (parameters <= 0) continue;
    double lowest = std::numeric_limits<double>::infinity(), lowest_hidden = lowest;
    for (std::size_t k = 0; k < options_; ++k) {
      const double each = weight * rule_->micro_exposed * rates_[k].each[kind], once = rates_[k].once[kind];
      lowest = std::min(lowest, each + rule_->step_exposed * once);
      lowest_hidden = std::min(lowest_hidden, each + once);
    }
    least += lowest * parameters;
    hidden += lowest_hidden * parameters;
  }
  return constants::kStep_s + std::max({0.0, least, hidden - hide_s_}) / stages_ * (1 - kRounding);
}

namespace {

// Most devices of one stage in any `unit` neighbouring devices.
std::int64_t of_one_stage(const Strategy& strategy, std::int64_t unit) {
  const std::int64_t block = strategy.dp_inner * strategy.devices_per_stage(), pitch = strategy.effective_pitch();
  return unit / pitch * block + std::min(unit % pitch, block);
}

// Seconds per byte of a group of n members.
double crossing_slope(const Fabric& fabric, const Strategy& strategy, std::int64_t n, Placed placed) {
  const std::int64_t tp = strategy.split.tp;
  double slope = 0;
  for (std::size_t l = 1; l < fabric.levels; ++l) {
    const std::int64_t unit = fabric.unit[l];
    const std::int64_t near = placed == Placed::as_given ? of_one_stage(strategy, unit) : unit;
    const std::int64_t most = ceil_div(near, tp);  // members in one unit
    if (n <= most) continue;
    const bool together = fabric.regular && unit % tp == 0;
    std::int64_t groups = tp > unit ? 1 : together ? tp : ceil_div(tp, 2);
    const bool tight = strategy.pitch == 0 && strategy.devices_spanned() >= unit;
    if (placed == Placed::as_given && fabric.regular && tight) groups = std::max(groups, ceil_div(unit, most));
    double capacity = fabric.capacity[l];
    if (fabric.has_rails() && l >= fabric.rail_level && fabric.lanes(l)) {
      capacity *= static_cast<double>(fabric.unit[fabric.rail_level]);
    }
    const double leaving = 1 - static_cast<double>(most) / static_cast<double>(n);
    slope = std::max(slope, static_cast<double>(groups) * leaving / capacity);
  }
  return slope;
}

}  // namespace

SyncPrices least_sync(const Cluster& cluster, const Strategy& strategy, bool shards_in_node, Placed placed) {
  SyncPrices sync;
  sync.has_inner = shards_in_node;
  if (cluster.torus || !cluster.measured.empty()) return sync;
  const double dense = crossing_slope(cluster.fabric, strategy, dense_replicas(strategy), placed);
  const double expert = crossing_slope(cluster.fabric, strategy, expert_replicas(strategy), placed);
  for (int whole = 0; whole < 2; ++whole) {
    sync.lines[0][whole].dense_shard.s_per_byte = dense;
    sync.lines[0][whole].expert_shard.s_per_byte = expert;
    sync.lines[1][whole].dense_replicate.s_per_byte = dense;
    sync.lines[1][whole].expert_replicate.s_per_byte = expert;
  }
  return sync;
}

}  // namespace nest
