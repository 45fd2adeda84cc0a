#include "cost/group_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/index.h"
#include "cost/constants.h"

namespace nest::cost {
namespace {

constexpr std::int64_t kNeighbours = 4096;   // devices beside a group that are looked at; patterns repeat long before
constexpr double kReferenceBytes = 256e6;    // at which the algorithm of a line is chosen
constexpr std::int64_t kReplicasTried = 64;  // pipelines whose position is tried; patterns repeat

cluster::AlgorithmSet library_algorithms(const cluster::Cluster& cluster, const cluster::GroupLayout& layout) {
  return cluster.algorithms.as_nccl() ? cluster::AlgorithmSet::nccl(layout.top > 0) : cluster.algorithms.allowed();
}

cluster::CollectiveTime library_time(const cluster::Cluster& cluster, const cluster::GroupLayout& layout,
                                     cluster::Collective collective, double bytes) {
  if (layout.members < 2) return {};
  if (cluster.torus) return cluster::collective_time(cluster, layout, collective, bytes);
  if (!cluster.measured.empty()) {
    const cluster::CollectiveTime time = cluster::collective_time(cluster, layout, collective, bytes);
    if (time.algorithm == cluster::Algorithm::measured) return time;
  }
  return cluster::best_time(cluster.fabric, layout, collective, bytes, library_algorithms(cluster, layout));
}

CostLine line_of(const cluster::Cluster& cluster, const GroupSpec& spec) {
  const cluster::GroupLayout layout = cluster::place_group(cluster, spec);
  if (layout.members < 2) return {};
  const cluster::CollectiveTime time =
      library_time(cluster, layout, cluster::Collective::reduce_scatter, kReferenceBytes);
  return {time.latency_s, time.bandwidth_s / kReferenceBytes};
}

void price_state(const cluster::Cluster& cluster, const groups::RankGroups& ranks, groups::Weights weights,
                 std::int64_t degree, CostLine& shard, CostLine& replicate) {
  groups::StateGroups state = ranks.state(weights, 0, degree);
  for (GroupSpec* spec : {&state.shard, &state.replicate}) spec->siblings.push_back(ranks.stage_axis());
  shard = line_of(cluster, state.shard);
  replicate = line_of(cluster, state.replicate);
  replicate.s_per_byte /= real(degree);
}

// Most flows that leave one unit of `unit` devices when each device x of [source, source + count) sends to x + shift.
std::int64_t flows_out(std::int64_t source, std::int64_t count, std::int64_t shift, std::int64_t unit) {
  if (std::abs(shift) >= unit) return std::min(unit, count);
  std::int64_t most = 0;
  for (std::int64_t begin = source / unit * unit; begin < source + count; begin += unit) {
    const std::int64_t low = std::max(begin, source);
    const std::int64_t high = std::min(begin + unit, source + count);
    const std::int64_t leaving =
        shift > 0 ? high - std::max(low, begin + unit - shift) : std::min(high, begin - shift) - low;
    most = std::max(most, leaving);
  }
  return most;
}

CostLine message_between(const cluster::Fabric& fabric, std::int64_t source, std::int64_t target, std::int64_t count) {
  std::array<std::int64_t, cluster::kMaxLevels> flows{};
  flows[0] = 1;
  std::size_t top = 0;
  for (std::size_t l = 1; l < fabric.levels; ++l) {
    if (fabric.regular) {
      flows[l] = flows_out(source, count, target - source, fabric.unit[l]);
    } else if (fabric.unit_of(l, source) != fabric.unit_of(l, target) ||
               fabric.unit_of(l, source + count - 1) != fabric.unit_of(l, target + count - 1)) {
      flows[l] = std::min(count, fabric.unit[l]);
    }
    if (flows[l] > 0) top = l;
  }
  CostLine line{fabric.latency_s[top] + fabric.message_overhead_s, 0};
  const bool by_port = fabric.has_rails() && top >= fabric.rail_level;
  for (std::size_t l = by_port ? fabric.rail_level : 0; l <= top; ++l) {
    auto sharing = real(flows[l]);
    if (by_port && l == fabric.rail_level) sharing = 1;
    if (by_port && l > fabric.rail_level && fabric.lanes(l)) {
      sharing = std::ceil(sharing / real(fabric.unit[fabric.rail_level]));
    }
    line.s_per_byte = std::max(line.s_per_byte, sharing / fabric.capacity[l]);
  }
  return line;
}

}  // namespace

double group_collective_s(const cluster::Cluster& cluster, const cluster::GroupLayout& layout,
                          cluster::Collective collective, double bytes) {
  return library_time(cluster, layout, collective, bytes).seconds;
}

StageGroups::StageGroups(const cluster::Cluster& cluster, const Split& split) : cluster_(cluster) {
  Strategy one;  // stage of one replica
  one.split = split;
  const groups::RankGroups ranks(one);
  const std::int64_t a = one.devices_per_stage(), around = std::max(a, std::min(cluster.devices, kNeighbours));
  const auto place = [&](groups::Kind kind, cluster::GroupLayout& layout) {
    GroupSpec spec = ranks.groups(kind, 0);
    if (spec.size() < 2) return;
    spec.siblings.push_back({a, std::max<std::int64_t>(1, around / a)});
    layout = cluster::place_group(cluster, spec);
  };
  place(groups::Kind::tensor, tensor_);
  place(groups::Kind::context, context_);
  place(groups::Kind::expert, expert_);
}

double StageGroups::all_to_all_s(const cluster::GroupLayout& layout, double bytes, std::int64_t top_k) const {
  using namespace constants;
  if (layout.members < 2) return 0;
  const auto ranks = real(layout.members);
  const double calls_s = kAllToAllPeer_s * (ranks - 1) + kAllToAll_s;
  if (!cluster_.measured.empty()) {
    const cluster::CollectiveTime time =
        cluster::collective_time(cluster_, layout, cluster::Collective::all_to_all, bytes);
    if (time.algorithm == cluster::Algorithm::measured) return time.seconds;
  }
  if (cluster_.torus) {
    return cluster::collective_time(cluster_, layout, cluster::Collective::all_to_all, bytes).bandwidth_s /
               kAllToAllRate +
           calls_s;
  }
  const cluster::Fabric& fabric = cluster_.fabric;
  const double inside_s = bytes * (ranks - 1) / ranks / (fabric.capacity[0] * kAllToAllRate);
  double across_s = 0;
  if (layout.top > 0) {
    const auto per_node = real(layout.inside[1]);
    const double nodes = ranks / per_node;
    const double reached = 1 - std::pow(1 - 1 / nodes, real(top_k));  // of each node, by a token
    const double token_bytes = bytes / real(top_k);
    for (std::size_t l = 1; l <= layout.top; ++l) {
      const double beyond = nodes - real(layout.inside[l]) / per_node;
      // Devices that share the link: all of the unit, or one per port or lane.
      double sharing = real(layout.inside[l] * layout.groups_inside[l]);
      if (fabric.has_rails() && l >= fabric.rail_level && fabric.lanes(l)) {
        sharing = std::max(1.0, sharing / real(fabric.unit[fabric.rail_level]));
      }
      across_s = std::max(across_s, token_bytes * beyond * reached * sharing / fabric.capacity[l]);
    }
  }
  return inside_s + across_s + calls_s;
}

double StageGroups::seconds(const split::LayerCollective& exchange, std::int64_t top_k) const {
  const cluster::GroupLayout& layout = exchange.group == split::Group::tensor    ? tensor_
                                       : exchange.group == split::Group::context ? context_
                                                                                 : expert_;
  switch (exchange.kind) {
    case split::CollectiveKind::all_reduce:
      return group_collective_s(cluster_, layout, cluster::Collective::all_reduce, exchange.bytes);
    case split::CollectiveKind::all_gather:
      return group_collective_s(cluster_, layout, cluster::Collective::all_gather, exchange.bytes);
    case split::CollectiveKind::reduce_scatter:
      return group_collective_s(cluster_, layout, cluster::Collective::reduce_scatter, exchange.bytes);
    case split::CollectiveKind::all_to_all:
      return all_to_all_s(layout, exchange.bytes, std::max<std::int64_t>(1, top_k));
    case split::CollectiveKind::ring_exchange:
      // Keys and values of all ranks pass every rank, as in an all-gather.
      return group_collective_s(cluster_, layout, cluster::Collective::all_gather,
                                exchange.bytes * real(exchange.ranks));
  }
  return 0;
}

ShardLines shard_lines(const cluster::Cluster& cluster, const Strategy& strategy, std::int64_t degree) {
  const groups::RankGroups ranks(strategy);
  const groups::ZeroDegrees degrees = ranks.zero_degrees(degree);
  ShardLines lines;
  lines.dense_degree = degrees.dense;
  lines.expert_degree = degrees.expert;
  price_state(cluster, ranks, groups::Weights::dense, degrees.dense, lines.dense_shard, lines.dense_replicate);
  price_state(cluster, ranks, groups::Weights::expert, degrees.expert, lines.expert_shard, lines.expert_replicate);
  return lines;
}

CostLine message_line(const cluster::Cluster& cluster, const Strategy& strategy, std::int64_t from, std::int64_t to) {
  const groups::RankGroups ranks(strategy);
  const std::int64_t block = ranks.block();
  if (cluster.torus) {
    const std::int64_t first = std::min(from, to) * block;
    const GroupSpec spec{first, {{std::abs(to - from) * block, 2}}, {{1, block}}};
    const cluster::CollectiveTime time = cluster::collective_time(cluster, cluster::place_group(cluster, spec),
                                                                  cluster::Collective::send_recv, kReferenceBytes);
    return {time.latency_s, time.bandwidth_s / kReferenceBytes};
  }
  CostLine worst;
  const std::int64_t pipelines = std::min(ranks.pipelines(), kReplicasTried);
  for (std::int64_t r = 0; r < pipelines; ++r) {
    const std::int64_t start = r * ranks.pitch();
    const CostLine line = message_between(cluster.fabric, start + from * block, start + to * block, block);
    worst.latency_s = std::max(worst.latency_s, line.latency_s);
    worst.s_per_byte = std::max(worst.s_per_byte, line.s_per_byte);
  }
  return worst;
}

}  // namespace nest::cost
