#include "search/traffic_floor.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "base/error.h"
#include "base/index.h"
#include "cost/constants.h"

namespace nest::search {

TrafficFloor::TrafficFloor(const std::vector<StageChoice>& shardings, const cost::SyncRule& rule,
                           const PairPrices& pair, const SyncPrices& sync, const Strategy& strategy,
                           const groups::ZeroDegrees& most, const MemoryFloor& memory)
    : rule_(&rule),
      dense_(pair.dense_parameters()),
      expert_(pair.expert_parameters()),
      stages_(real(strategy.pp)),
      all_exchange_(pair.every_layer_has_parameters()),
      hide_s_(rule.step_hide * (strategy.virtual_stages > 1 ? stages_ : 1) * pair.hide_s()),
      micro_hide_s_(rule.micro_hide * (pair.hide_s() + pair.recompute_s())) {
  if (rule.hides_what_it_can) hide_s_ = micro_hide_s_ = std::numeric_limits<double>::infinity();
  const double room = memory.room_of(strategy);
  NEST_CHECK(shardings.size() <= rates_.size(), "more ways to shard than rows and groups");
  for (const StageChoice& way : shardings) {
    if (way.in_node && !sync.has_inner) continue;
    const int group = way.in_node ? 1 : 0, zero = way.row();
    const cost::ShardLines& lines = sync.lines[group][zero >= 3 ? 1 : 0];
    const double shard[2] = {lines.dense_shard.s_per_byte, lines.expert_shard.s_per_byte};
    const double replicate[2] = {lines.dense_replicate.s_per_byte, lines.expert_replicate.s_per_byte};
    Rate& rate = rates_[options_++];
    const std::int64_t dense_degree = group == 0 ? most.dense : lines.dense_degree;
    const std::int64_t expert_degree = group == 0 ? most.expert : lines.expert_degree;
    const groups::ZeroDegrees updated = way.outer ? most : groups::ZeroDegrees{dense_degree, expert_degree};
    rate.most = room / std::min(memory.parameter_bytes(zero, dense_degree, updated.dense, groups::Weights::dense),
                                memory.parameter_bytes(zero, expert_degree, updated.expert, groups::Weights::expert));
    double bucket = cost::constants::kBucketParameters;
    if (group == 0) {
      bucket = std::max(bucket, cost::constants::kBucketParametersPerRank * real(lines.dense_degree));
    }
    const bool buckets = rule.step_hide > 0 && !rule.hides_backward_only && dense_ + expert_ > 0;
    rate.exposed =
        std::max(rule.step_fraction(strategy.virtual_stages), buckets ? std::min(1.0, bucket / (dense_ + expert_)) : 0);
    const cost::ShardingTraffic often = rule.traffic(zero);
    const double shard_s = lines.dense_shard.latency_s;
    const double between_s = (often.between + often.across) * lines.dense_replicate.latency_s;
    rate.each_latency_s = (often.backward_scatters + often.micro_gathers()) * shard_s;
    rate.once_latency_s = between_s + (often.step_scatters + often.step_gathers) * shard_s;
    for (std::size_t kind = 0; kind < 2; ++kind) {
      const double scatter = rule.gradient_bytes * shard[kind], gather = rule.weight_bytes * shard[kind];
      const double between = (often.between * rule.gradient_bytes + often.across * rule.weight_bytes) * replicate[kind];
      const auto degree = real(kind == 0 ? updated.dense : updated.expert);
      const double least_update = std::min(rule.update.matrices, rule.update.rest);
      rate.optimizer[kind] =
          (least_update / (zero >= 1 ? degree : 1) + cost::constants::kNormBytes / (zero >= 3 ? degree : 1)) /
          rule.memory_bytes_per_s;
      rate.each[kind] = often.backward_scatters * scatter + often.micro_gathers() * gather;
      rate.once[kind] = often.step_scatters * scatter + between + often.step_gathers * gather;
    }
  }
  // A stage that has several layers with one table holds it once, though all of them are counted above.
  const double all = std::max(0.0, dense_ - pair.shared_parameters()) + expert_;
  for (std::size_t k = 0; k < options_; ++k) {
    const double held = rates_[k].most;
    if (all <= stages_ * held) continue;
    displaced_[displacements_++] = {held, all - (stages_ - 1) * held};
  }
}

double TrafficFloor::seconds(double weight) const {
  constexpr double kRounding = 1e-12, kNone = std::numeric_limits<double>::infinity();
  if (options_ == 0) return cost::constants::kStep_s;
  using Rates = std::array<double, 3>;  // dense, expert, latency
  constexpr std::size_t kWays = 3;      // fractions of all; what happens once whole; what happens often whole
  const double micro = weight * rule_->micro_exposed;
  std::array<std::array<Rates, 9>, kWays> costs;  // of every option
  for (std::size_t k = 0; k < options_; ++k) {
    const Rate& rate = rates_[k];
    const double each[3] = {rate.each[0], rate.each[1], rate.each_latency_s};
    const double once[3] = {rate.once[0], rate.once[1], rate.once_latency_s};
    const double optimizer[3] = {rate.optimizer[0], rate.optimizer[1], 0};
    for (std::size_t part = 0; part < 3; ++part) {
      const double exposed = rate.exposed * once[part];
      costs[0][k][part] = micro * each[part] + exposed + optimizer[part];
      costs[1][k][part] = micro * each[part] + once[part] + optimizer[part];
      costs[2][k][part] = weight * each[part] + exposed + optimizer[part];
    }
  }
  // The least of the options with room for more than so many parameters.
  const auto least = [&](std::size_t way, double above) {
    Rates rates{kNone, kNone, kNone};
    for (std::size_t k = 0; k < options_; ++k) {
      if (rates_[k].most <= above) continue;
      for (std::size_t part = 0; part < 3; ++part) rates[part] = std::min(rates[part], costs[way][k][part]);
    }
    return rates;
  };
  const auto all = [&](std::size_t way) {
    const Rates rates = least(way, -1);
    double more = 0;
    for (std::size_t k = 0; k < displacements_; ++k) {
      const Rates others = least(way, displaced_[k].most);
      if (others[0] == kNone) continue;  // nothing fits at all: not for this to say
      const double dense = others[0] - rates[0], expert = others[1] - rates[1];
      // What is displaced is of the kind for which that costs less.
      const double parameters = displaced_[k].parameters;
      const double cheap = std::min(parameters, dense < expert ? dense_ : expert_);
      more = std::max(more, cheap * std::min(dense, expert) + (parameters - cheap) * std::max(dense, expert));
    }
    return rates[0] * dense_ + rates[1] * expert_ + more + (all_exchange_ ? rates[2] * stages_ : 0);
  };
  const double low = std::max({0.0, all(0), all(1) - hide_s_, all(2) - weight * micro_hide_s_});
  return cost::constants::kStep_s + low / stages_ * (1 - kRounding);
}

namespace {

// Most devices of one stage in any `unit` neighbouring devices.
std::int64_t of_one_stage(const Strategy& strategy, std::int64_t unit) {
  const groups::RankGroups ranks(strategy);
  return unit / ranks.pitch() * ranks.block() + std::min(unit % ranks.pitch(), ranks.block());
}

// Ranks that hold the same weights: so many, every `stride` ranks of a stage.
struct Replicas {
  std::int64_t count = 1, stride = 1;
};

// One step of an exchange of n replicas' worth of bytes over the fabric: its latency, and seconds per byte. `spread`:
// members of a unit count as so many more, because they belong to groups that its border may cut.
cost::CostLine crossing(const cluster::Fabric& fabric, const Strategy& strategy, const Replicas& replicas,
                        std::int64_t spread, Placed placed) {
  const std::int64_t n = replicas.count, neighbours = std::min(strategy.split.tp, replicas.stride);
  cost::CostLine step{n > 1 ? fabric.latency_s[0] : 0, 0};
  bool crosses = false;
  for (std::size_t l = 1; l < fabric.levels; ++l) {
    const std::int64_t unit = fabric.unit[l];
    const std::int64_t near = placed == Placed::as_given ? of_one_stage(strategy, unit) : unit;
    const std::int64_t most = ceil_div(near, replicas.stride) + spread;  // members in one unit
    if (n <= most) continue;
    const bool together = fabric.regular && unit % neighbours == 0;
    auto groups = real(neighbours > unit ? 1 : together ? neighbours : ceil_div(neighbours, 2));
    const bool tight = strategy.pitch == 0 && strategy.devices_spanned() >= unit;
    if (placed == Placed::as_given && fabric.regular && tight) {
      groups = std::max(groups, real(unit) / real(most));
    }
    double capacity = fabric.capacity[l];
    if (fabric.has_rails() && l >= fabric.rail_level && fabric.lanes(l)) {
      capacity *= real(fabric.unit[fabric.rail_level]);
    }
    const double leaving = 1 - real(most) / real(n);
    step.s_per_byte = std::max(step.s_per_byte, groups * leaving / capacity);
    if (!crosses) step.latency_s = fabric.latency_s[l];
    crosses = true;
  }
  return step;
}

}  // namespace

SyncPrices least_sync(const cluster::Cluster& cluster, const Strategy& strategy,
                      std::optional<std::int64_t> node_degree, Placed placed) {
  SyncPrices sync;
  sync.has_inner = node_degree.has_value();
  for (cost::ShardLines& lines : sync.lines[1]) {
    lines.dense_degree = groups::dense_replicas(strategy);
    lines.expert_degree = groups::expert_replicas(strategy);
  }
  if (cluster.torus || !cluster.measured.empty()) return sync;
  const cluster::Fabric& fabric = cluster.fabric;
  const Replicas dense{groups::dense_replicas(strategy), strategy.split.tp};
  const Replicas expert{groups::expert_replicas(strategy), strategy.split.expert_devices()};
  // Of every node at least one rank takes part in the second step of sharding inside nodes.
  const std::int64_t unit = fabric.levels > 1 ? fabric.unit[1] : fabric.devices;
  const std::int64_t node = ceil_div(unit, dense.stride), expert_node = ceil_div(unit, expert.stride);
  const bool rings = cluster.algorithms.as_nccl();
  const auto line = [&](const Replicas& replicas, std::int64_t spread, std::int64_t members) {
    cost::CostLine exchange = crossing(fabric, strategy, replicas, spread, placed);
    exchange.latency_s *= rings ? real(std::max<std::int64_t>(0, members - 1)) : 0;
    return exchange;
  };
  cost::ShardLines all;
  all.dense_shard = line(dense, 0, dense.count);
  all.expert_shard = line(expert, 0, expert.count);
  all.dense_degree = dense.count;
  all.expert_degree = expert.count;
  sync.lines[0][0] = sync.lines[0][1] = all;
  cost::ShardLines inner;
  const bool any = node_degree.value_or(kAnyDegree) == kAnyDegree;
  const std::int64_t fewest = any ? 2 : *node_degree, most = any ? node : std::min(node, *node_degree);
  // Each of k ranks receives 1 - 1/k of the bytes: over one link of its own fastest where k is least, over the k - 1 links
  // of a full mesh where it is largest.
  const double inside = fabric.full_mesh ? 1 / real(std::max(fewest, most)) : 1 - 1 / real(fewest);
  inner.dense_shard = {rings ? real(fewest - 1) * fabric.latency_s[0] : 0, inside / fabric.capacity[0]};
  inner.dense_replicate = line(dense, node - 1, dense.count / most);
  inner.expert_replicate = line(expert, expert_node - 1, 0);
  inner.dense_degree = std::min(most, dense.count);
  inner.expert_degree = std::min(expert_node, expert.count);
  sync.lines[1][0] = sync.lines[1][1] = inner;
  return sync;
}

}  // namespace nest::search
