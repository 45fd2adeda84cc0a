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
constexpr double kEndlessBytes = 1e18;       // beside which latencies are nothing
constexpr std::int64_t kReplicasTried = 64;  // pipelines whose position is tried; patterns repeat

cluster::AlgorithmSet library_algorithms(const cluster::Cluster& cluster, const cluster::GroupLayout& layout) {
  return cluster.algorithms.as_nccl() ? cluster::AlgorithmSet::nccl(layout.top > 0) : cluster.algorithms.allowed();
}

// Of the class of flows whose latency is largest, whichever of them decides how long `time` is.
double largest_latency_s(const cluster::Cluster& cluster, const cluster::GroupLayout& layout,
                         const cluster::CollectiveTime& time) {
  if (cluster.torus || time.algorithm == cluster::Algorithm::measured) return time.latency_s;
  return cluster::algorithm_time(cluster.fabric, layout, cluster::Collective::reduce_scatter, 0, time.algorithm)
      ->latency_s;
}

CostLine line_in_calls(const cluster::Cluster& cluster, const cluster::GroupLayout& layout, double call_bytes) {
  if (layout.members < 2 || call_bytes <= 0) return {};
  const cluster::CollectiveTime time =
      group_collective(cluster, layout, cluster::Collective::reduce_scatter, call_bytes);
  return {largest_latency_s(cluster, layout, time), time.seconds / call_bytes};
}

CostLine line_at_most(const cluster::Cluster& cluster, const cluster::GroupLayout& layout) {
  if (layout.members < 2) return {};
  const cluster::CollectiveTime time =
      group_collective(cluster, layout, cluster::Collective::reduce_scatter, kLargeCallBytes);
  const double latency_s = largest_latency_s(cluster, layout, time);
  if (cluster.torus || time.algorithm == cluster::Algorithm::measured) {
    return {latency_s, time.bandwidth_s / kLargeCallBytes};
  }
  const auto endless = cluster::algorithm_time(cluster.fabric, layout, cluster::Collective::reduce_scatter,
                                               kEndlessBytes, time.algorithm);
  return {latency_s, endless->bandwidth_s / kEndlessBytes};
}

// Whether units of every level hold whole numbers of what a strategy repeats, or the other way round. Where not, groups
// differ in how they lie, and a layout is the worst of each of its numbers: more than any of them takes.
bool lies_evenly(const cluster::Fabric& fabric, const Strategy& strategy, const groups::RankGroups& ranks,
                 const groups::ZeroDegrees& degrees) {
  if (!fabric.regular) return false;
  const Split& split = strategy.split;
  const std::array<std::int64_t, 7> parts = {split.tp,
                                             split.tp * split.cp,
                                             split.tp * degrees.dense,
                                             split.expert_devices(),
                                             split.expert_devices() * degrees.expert,
                                             ranks.block(),
                                             ranks.pitch()};
  for (std::size_t l = 1; l < fabric.levels; ++l) {
    const std::int64_t unit = fabric.unit[l];
    if (std::any_of(parts.begin(), parts.end(),
                    [&](std::int64_t part) { return part % unit != 0 && unit % part != 0; }))
      return false;
  }
  return true;
}

void place_state(const cluster::Cluster& cluster, const groups::RankGroups& ranks, groups::Weights weights,
                 std::int64_t degree, schedule::Law law, cluster::GroupLayout& shard, cluster::GroupLayout& replicate) {
  groups::StateGroups state = ranks.state(weights, 0, degree);
  if (law == schedule::Law::formula) {
    for (GroupSpec* spec : {&state.shard, &state.replicate}) spec->siblings.push_back(ranks.stage_axis());
  }
  shard = cluster::place_group(cluster, state.shard);
  replicate = cluster::place_group(cluster, state.replicate);
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
  // Some messages may stay in a mesh whose links are slower than what others leave it by.
  if (fabric.full_mesh && (top == 0 || flows[1] < std::min(count, fabric.unit[1])))
    line.s_per_byte = 1 / fabric.capacity[0];
  for (std::size_t l = fabric.first_link(top); l <= top; ++l) {
    auto sharing = real(flows[l]);
    if (by_port && l == fabric.rail_level) sharing = 1;
    if (by_port && l > fabric.rail_level && fabric.lanes(l)) {
      sharing = std::ceil(sharing / real(fabric.unit[fabric.rail_level]));
    }
    line.s_per_byte = std::max(line.s_per_byte, sharing / fabric.capacity[l]);
  }
  return line;
}

// Replicas from `first` on in which a unit of some level ends: only there do messages between stages leave it. Units that
// hold whole replicas divide none, and replicas of whole units are all alike. Of levels with few units all are found.
std::vector<std::int64_t> divided_replicas(const cluster::Fabric& fabric, const groups::RankGroups& ranks,
                                           std::int64_t first) {
  std::vector<std::int64_t> found;
  if (ranks.pipelines() <= first || !fabric.regular) return found;
  const std::int64_t pitch = ranks.pitch();
  for (std::size_t l = 1; l < fabric.levels; ++l) {
    const std::int64_t unit = fabric.unit[l];
    if (unit % pitch == 0 || pitch % unit == 0) continue;
    const std::int64_t ends = std::min(ranks.pipelines() * pitch / unit, kReplicasTried);
    for (std::int64_t k = 1; k <= ends; ++k) {
      const std::int64_t r = k * unit / pitch;
      if (r >= first && r < ranks.pipelines()) found.push_back(r);
    }
  }
  return found;
}

// Of an all-to-all of routed tokens: bytes of a row, and whether it is on its way home. Backward, what was dispatched is
// summed up at home.
struct RoutedRows {
  double row_bytes = 0;
  bool home = false;
};
RoutedRows rows_of(const split::LocalLayer& local, const split::LayerCollective& exchange) {
  const split::LocalOperator& op = local.operators[at(exchange.operator_index)];
  const bool combines = op.kind == model::OperatorKind::combine;
  const model::TensorId routed = combines ? op.source->inputs.front() : op.source->outputs.front();
  const model::Tensor& rows = local.source->tensors[at(routed)];
  return {real(model::row_elements(rows) * rows.element_bytes), combines != (exchange.phase == split::Phase::backward)};
}

}  // namespace

cluster::CollectiveTime group_collective(const cluster::Cluster& cluster, const cluster::GroupLayout& layout,
                                         cluster::Collective collective, double bytes) {
  if (layout.members < 2) return {};
  if (cluster.torus) return cluster::collective_time(cluster, layout, collective, bytes);
  if (!cluster.measured.empty()) {
    const cluster::CollectiveTime time = cluster::collective_time(cluster, layout, collective, bytes);
    if (time.algorithm == cluster::Algorithm::measured) return time;
  }
  return cluster::best_time(cluster.fabric, layout, collective, bytes, library_algorithms(cluster, layout));
}

double group_collective_s(const cluster::Cluster& cluster, const cluster::GroupLayout& layout,
                          cluster::Collective collective, double bytes) {
  return group_collective(cluster, layout, collective, bytes).seconds;
}

StageGroups::StageGroups(const cluster::Cluster& cluster, const Split& split, const DispatchRule& rule,
                         schedule::Law law)
    : cluster_(cluster), split_(split), rule_(rule) {
  Strategy one;  // stage of one team
  one.split = split;
  one.dp = one.dp_inner = split.team();
  const groups::RankGroups ranks(one);
  const std::int64_t a = split.team_devices(), around = std::max(a, std::min(cluster.devices, kNeighbours));
  const auto place_spec = [&](GroupSpec spec, cluster::GroupLayout& layout, bool alone = false) {
    if (spec.size() < 2) return;
    if (!alone) spec.siblings.push_back({a, std::max<std::int64_t>(1, around / a)});
    layout = cluster::place_group(cluster, spec);
  };
  const auto place = [&](groups::Kind kind, cluster::GroupLayout& layout, bool alone = false) {
    place_spec(ranks.groups(kind, 0), layout, alone);
  };
  const bool alone = law == schedule::Law::least;
  place(groups::Kind::tensor, tensor_);
  place(groups::Kind::context, context_);
  if (split.cp_comm == ContextExchange::a2a_p2p) {
    groups::RankGroups::ContextParts parts = ranks.context_parts(0);
    place_spec(std::move(parts.heads), context_heads_);
    place_spec(std::move(parts.ring), context_ring_);
  } else {
    context_heads_ = context_ring_ = context_;
  }
  place(groups::Kind::expert, expert_, alone);
  place(groups::Kind::expert_tensor, expert_tensor_);
  if (facts_of(rule.dispatcher).spans_tensor && split.expert_tp() > 1 && split.ep > 1) {
    place(groups::Kind::tensor_expert, tensor_expert_, alone);
  }
}

const cluster::GroupLayout& StageGroups::layout_of(const split::LayerCollective& exchange) const {
  switch (exchange.group) {
    case split::Group::tensor: return tensor_;
    case split::Group::context:
      if (exchange.kind == split::CollectiveKind::all_to_all) return context_heads_;
      return exchange.kind == split::CollectiveKind::ring_exchange ? context_ring_ : context_;
    case split::Group::expert: return expert_;
    case split::Group::expert_tensor: return expert_tensor_;
  }
  return tensor_;
}

// Share of the data sheet's bandwidth, where the cluster's network is as good as that on which it was measured.
double StageGroups::link_rate(std::size_t level, double share, double usual) const {
  const double own = level < cluster_.levels.size() ? cluster_.levels[level].efficiency : 1;
  return rate_at(level) * share / std::max(own, usual);
}

std::int64_t StageGroups::routed_inside() const {
  const cluster::GroupLayout& layout = routed();
  return layout.top > 0 ? layout.inside[1] : layout.members;
}

double StageGroups::rate_at(std::size_t level) const {
  return level == 0 ? cluster_.fabric.inside_rate(routed_inside()) : cluster_.fabric.capacity[level];
}

// Devices that share a link: all of the unit, or one per port or lane.
double StageGroups::sharing(const cluster::GroupLayout& layout, std::size_t level) const {
  const cluster::Fabric& fabric = cluster_.fabric;
  const double sharing = real(layout.inside[level] * layout.groups_inside[level]);
  const bool lanes = fabric.has_rails() && level >= fabric.rail_level && fabric.lanes(level);
  return lanes ? std::max(1.0, sharing / real(fabric.unit[fabric.rail_level])) : sharing;
}

double StageGroups::routed_rate(std::size_t level) const {
  using namespace constants;
  const DispatcherFacts& facts = facts_of(rule_.dispatcher);
  if (!facts.forwards) return rate_at(level) * (level == 0 ? kAllToAllRate : 1);
  if (level > 0) return link_rate(level, facts.network, kUsualNetwork);
  return std::min(link_rate(0, facts.link, kUsualLink), kForwardedPerMultiprocessor * rule_.busy());
}

double StageGroups::routed_latency_s() const {
  using namespace constants;
  const auto ranks = real(routed().members);
  if (facts_of(rule_.dispatcher).forwards) return kForwarded_s + kForwardedDoubling_s * std::log2(ranks);
  return kAllToAllPeer_s * (ranks - 1) + kAllToAll_s;
}

std::optional<RoutedTraffic> StageGroups::routed_traffic(const split::LocalLayer& local,
                                                         const split::LayerCollective& exchange) const {
  using namespace constants;
  const cluster::GroupLayout& layout = routed();
  const bool forwards = facts_of(rule_.dispatcher).forwards;
  if (cluster_.torus || (!cluster_.measured.empty() && !forwards)) return std::nullopt;
  RoutedTraffic traffic;
  if (layout.members < 2 || exchange.bytes <= 0) return traffic;
  const Choice choice = choice_of(*local.source);
  const auto ranks = real(layout.members), expert_ranks = real(split_.ep);
  const double token_bytes = exchange.bytes / real(choice.top_k);
  if (rule_.dispatcher == Dispatcher::allgather) {
    const RoutedRows rows = rows_of(local, exchange);
    traffic.gathered_bytes = gathered_bytes(choice, token_bytes, rows.row_bytes, rows.home);
    traffic.home = rows.home;
    traffic.ranks_inside = ranks;
    return traffic;
  }
  const double per_unit = real(routed_inside());
  const double units = ranks / per_unit;
  const double to_rank =
      forwards ? token_bytes * distinct_parts(choice, expert_ranks) / expert_ranks * units : exchange.bytes / ranks;
  traffic.forwards = forwards;
  traffic.ranks_inside = per_unit;
  traffic.units = units;
  traffic.inside_bytes = to_rank * (per_unit - 1);
  if (units > 1)
    traffic.unit_bytes = forwards ? token_bytes * distinct_parts(choice, units) / units : to_rank * per_unit;
  traffic.inside_share = routed_rate(0) / rate_at(0);
  // Where adding the copies up takes longer than sending them, links wait for it.
  const RoutedRows rows = rows_of(local, exchange);
  const double copies = ranks / expert_ranks * distinct_parts(choice, expert_ranks);
  const double sum_s = summing_s(token_bytes / rows.row_bytes * copies, rows.row_bytes, rows.home);
  if (traffic.inside_bytes > 0 && sum_s > 0) {
    const double most = traffic.inside_bytes / (sum_s * rate_at(0));
    traffic.inside_share = std::min(traffic.inside_share, most);
  }
  if (layout.top > 0) traffic.beyond_share = routed_rate(1) / cluster_.fabric.capacity[1];
  traffic.latency_s = routed_latency_s();
  return traffic;
}

double StageGroups::library_all_to_all_s(const cluster::GroupLayout& layout, double bytes) const {
  using namespace constants;
  if (layout.members < 2 || bytes <= 0) return 0;
  const double latency_s = kAllToAllPeer_s * (real(layout.members) - 1) + kAllToAll_s;
  if (!cluster_.measured.empty() || cluster_.torus) {
    const cluster::CollectiveTime time =
        cluster::collective_time(cluster_, layout, cluster::Collective::all_to_all, bytes);
    if (time.algorithm == cluster::Algorithm::measured) return time.seconds;
    if (cluster_.torus) return time.bandwidth_s / kAllToAllRate + latency_s;
  }
  return all_to_all_s(layout, bytes) + latency_s;
}

double StageGroups::all_to_all_s(const cluster::GroupLayout& layout, double bytes) const {
  using namespace constants;
  const cluster::Fabric& fabric = cluster_.fabric;
  const auto ranks = real(layout.members);
  // With ports of their own, devices send to other nodes past their links inside the node.
  const bool ports = fabric.first_link(layout.top) > 0;
  const std::int64_t near = ports ? layout.inside[1] : layout.members;
  double slowest_s = bytes * real(near - 1) / ranks / (fabric.inside_rate(near) * kAllToAllRate);
  for (std::size_t l = 1; l <= layout.top; ++l) {
    const double beyond = (ranks - real(layout.inside[l])) / ranks;
    slowest_s = std::max(slowest_s, bytes * beyond * sharing(layout, l) / fabric.capacity[l]);
  }
  return slowest_s;
}

double StageGroups::summing_s(double copies, double row_bytes, bool home) const {
  using namespace constants;
  if (!home || !facts_of(rule_.dispatcher).sums_copies) return 0;
  return copies * (kCombineCopy_s + row_bytes / kCombineBytes_per_s) / (kCombinePipelines * rule_.busy());
}

double StageGroups::forwarded_s(const cluster::GroupLayout& layout, const Choice& choice, double tokens,
                                double row_bytes, bool home) const {
  const auto ranks = real(layout.members), expert_ranks = real(split_.ep);
  const double per_node = real(routed_inside());
  const double nodes = ranks / per_node;
  const double copies = ranks / expert_ranks * distinct_parts(choice, expert_ranks);  // one per rank
  const double token_bytes = tokens * row_bytes;
  double slowest_s = std::max(token_bytes * copies * (per_node - 1) / per_node / routed_rate(0),
                              summing_s(tokens * copies, row_bytes, home));
  const double reached = distinct_parts(choice, nodes) / nodes;  // of each node, by a token
  for (std::size_t l = 1; l <= layout.top; ++l) {
    const double beyond = nodes - real(layout.inside[l]) / per_node;
    slowest_s = std::max(slowest_s, token_bytes * beyond * reached * sharing(layout, l) / routed_rate(l));
  }
  return slowest_s + routed_latency_s();
}

double StageGroups::gathered_bytes(const Choice& choice, double token_bytes, double row_bytes, bool home) const {
  using namespace constants;
  const auto ranks = real(routed().members);
  const double tokens = token_bytes / row_bytes;
  const double whole = ranks * tokens * (home ? kRouterWidth : 1) * row_bytes;
  return home ? whole : whole + ranks * tokens * kRoutingMapBytes * real(choice.experts);
}

double StageGroups::dispatch_s(const Choice& choice, double bytes, double row_bytes, bool home) const {
  using namespace constants;
  const cluster::GroupLayout& layout = routed();
  if (layout.members < 2 || bytes <= 0) return 0;
  const double token_bytes = bytes / real(choice.top_k);
  const bool forwards = facts_of(rule_.dispatcher).forwards;
  if (rule_.dispatcher == Dispatcher::allgather) {
    const auto collective = home ? cluster::Collective::reduce_scatter : cluster::Collective::all_gather;
    return group_collective_s(cluster_, layout, collective, gathered_bytes(choice, token_bytes, row_bytes, home));
  }
  if (!forwards || cluster_.torus) return library_all_to_all_s(layout, bytes);
  return forwarded_s(layout, choice, token_bytes / row_bytes, row_bytes, home);
}

double StageGroups::seconds(const split::LocalLayer& local, const split::LayerCollective& exchange) const {
  const cluster::GroupLayout& layout = layout_of(exchange);
  const split::LocalOperator& op = local.operators[at(exchange.operator_index)];
  const bool home = op.kind == model::OperatorKind::combine;
  const bool routes = home || op.kind == model::OperatorKind::dispatch;
  switch (exchange.kind) {
    case split::CollectiveKind::all_reduce:
      return group_collective_s(cluster_, layout, cluster::Collective::all_reduce, exchange.bytes);
    case split::CollectiveKind::all_gather:
      if (routes && spans_tensor()) return 0;  // part of the exchange that spans these ranks
      return group_collective_s(cluster_, layout, cluster::Collective::all_gather, exchange.bytes);
    case split::CollectiveKind::reduce_scatter:
      if (routes && spans_tensor()) return 0;
      return group_collective_s(cluster_, layout, cluster::Collective::reduce_scatter, exchange.bytes);
    case split::CollectiveKind::all_to_all: {
      if (exchange.group == split::Group::context) return library_all_to_all_s(layout, exchange.bytes);
      const RoutedRows rows = rows_of(local, exchange);
      return dispatch_s(choice_of(*local.source), exchange.bytes, rows.row_bytes, rows.home);
    }
    case split::CollectiveKind::ring_exchange:
      // Keys and values of all ranks pass every rank, as in an all-gather; in a full mesh over one link, to the next rank.
      if (cluster_.fabric.full_mesh && cluster_.measured.empty()) {
        return layout.members < 2
                   ? 0
                   : cluster::algorithm_time(cluster_.fabric, layout, cluster::Collective::all_gather,
                                             exchange.bytes * real(exchange.ranks), cluster::Algorithm::ring)
                         ->seconds;
      }
      return group_collective_s(cluster_, layout, cluster::Collective::all_gather,
                                exchange.bytes * real(exchange.ranks));
  }
  return 0;
}

ShardGroups shard_groups(const cluster::Cluster& cluster, const Strategy& strategy, std::int64_t degree,
                         schedule::Law law) {
  const groups::RankGroups ranks(strategy);
  const groups::ZeroDegrees degrees = ranks.zero_degrees(degree);
  ShardGroups groups;
  groups.dense_degree = degrees.dense;
  groups.expert_degree = degrees.expert;
  groups.replicas = ranks.zero_degrees(0);
  if (law == schedule::Law::least && !lies_evenly(cluster.fabric, strategy, ranks, degrees)) {
    groups.dense_least = least_slopes(cluster, ranks, groups::Weights::dense, degrees.dense);
    groups.expert_least = least_slopes(cluster, ranks, groups::Weights::expert, degrees.expert);
    return groups;
  }
  place_state(cluster, ranks, groups::Weights::dense, degrees.dense, law, groups.dense_shard, groups.dense_replicate);
  place_state(cluster, ranks, groups::Weights::expert, degrees.expert, law, groups.expert_shard,
              groups.expert_replicate);
  return groups;
}

ShardLines shard_lines(const cluster::Cluster& cluster, const ShardGroups& groups, const CallBytes& calls,
                       schedule::Law law) {
  ShardLines lines;
  lines.dense_degree = groups.dense_degree;
  lines.expert_degree = groups.expert_degree;
  lines.replicas = groups.replicas;
  lines.calls = calls;
  const bool least = law == schedule::Law::least;
  if (least && cluster.torus) return lines;
  lines.dense_shard = line_in_calls(cluster, groups.dense_shard, calls.dense);
  lines.expert_shard = line_in_calls(cluster, groups.expert_shard, calls.expert);
  lines.dense_replicate = line_at_most(cluster, groups.dense_replicate);
  lines.dense_replicate.s_per_byte /= real(groups.dense_degree);
  lines.expert_replicate = line_at_most(cluster, groups.expert_replicate);
  lines.expert_replicate.s_per_byte /= real(groups.expert_degree);
  // The largest latency need not be of the flows that decide how long a call takes.
  if (least) {
    const auto raise = [](CostLine& line, double s_per_byte) {
      line.s_per_byte = std::max(line.s_per_byte, s_per_byte);
    };
    raise(lines.dense_shard, groups.dense_least.shard.alone);
    raise(lines.expert_shard, groups.expert_least.shard.alone);
    raise(lines.dense_replicate, groups.dense_least.replicate.alone / real(groups.dense_degree));
    raise(lines.expert_replicate, groups.expert_least.replicate.alone / real(groups.expert_degree));
    for (CostLine* line : {&lines.dense_shard, &lines.expert_shard, &lines.dense_replicate, &lines.expert_replicate}) {
      line->latency_s = 0;
    }
  }
  return lines;
}

CostLine message_line(const cluster::Cluster& cluster, const Strategy& strategy, std::int64_t from, std::int64_t to,
                      schedule::Law law) {
  const bool least = law == schedule::Law::least;
  const groups::RankGroups ranks(strategy);
  const std::int64_t block = ranks.block();
  if (cluster.torus) {
    if (least) return {};
    const std::int64_t first = std::min(from, to) * block;
    const GroupSpec spec{first, {{std::abs(to - from) * block, 2}}, {{1, block}}};
    const cluster::CollectiveTime time = cluster::collective_time(cluster, cluster::place_group(cluster, spec),
                                                                  cluster::Collective::send_recv, kLargeCallBytes);
    return {time.latency_s, time.bandwidth_s / kLargeCallBytes};
  }
  const std::int64_t pipelines = std::min(ranks.pipelines(), kReplicasTried);
  const auto line_of = [&](std::int64_t start, std::int64_t count) {
    return message_between(cluster.fabric, start + from * block, start + to * block, count);
  };
  CostLine chosen = line_of(0, block);
  if (!least) {
    const auto look_at = [&](std::int64_t r) {
      const CostLine line = line_of(r * ranks.pitch(), block);
      chosen.latency_s = std::max(chosen.latency_s, line.latency_s);
      chosen.s_per_byte = std::max(chosen.s_per_byte, line.s_per_byte);
    };
    for (std::int64_t r = 1; r < pipelines; ++r) look_at(r);
    for (const std::int64_t r : divided_replicas(cluster.fabric, ranks, pipelines)) look_at(r);
    return chosen;
  }
  // Replicas that all lie alike send at the same time. Others may not; nor may those whose tokens meet rings of gradients
  // inside a node, where neighbours in a ring and those at its ends come apart.
  const bool alike = strategy.split.ep == 1 || strategy.dp_inner == 1;
  if (alike && lies_evenly(cluster.fabric, strategy, ranks, {1, 1})) return chosen;
  const std::int64_t devices = strategy.split.replica_devices();
  const std::int64_t inner = std::min(block / devices, kReplicasTried);
  for (std::int64_t r = 0; r < pipelines; ++r) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const CostLine line = line_of(r * ranks.pitch() + i * devices, devices);
      chosen.latency_s = std::min(chosen.latency_s, line.latency_s);
      chosen.s_per_byte = std::min(chosen.s_per_byte, line.s_per_byte);
    }
  }
  return chosen;
}

}  // namespace nest::cost
