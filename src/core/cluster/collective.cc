#include "cluster/collective.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/checked.h"
#include "base/error.h"
#include "base/index.h"
#include "cluster/step.h"

namespace nest::cluster {
namespace {

// Adds up the steps of one algorithm.
class Sum {
 public:
  explicit Sum(Algorithm algorithm) { time_.algorithm = algorithm; }

  void add(const StepTime& step, double times) {
    time_.latency_s += times * step.latency_s;
    time_.bandwidth_s += times * step.transfer_s;
    if (times * step.transfer_s > largest_s_) {
      largest_s_ = times * step.transfer_s;
      time_.bottleneck = step.link;
    }
  }

  CollectiveTime total() const {
    CollectiveTime time = time_;
    time.seconds = time.latency_s + time.bandwidth_s;
    return time;
  }

 private:
  CollectiveTime time_;
  double largest_s_ = 0;
};

// Passes over the data: all-reduce is a reduce-scatter and an all-gather.
std::optional<double> passes(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return 2;
    case Collective::all_gather:
    case Collective::reduce_scatter: return 1;
    default: return std::nullopt;
  }
}

bool ring_keeps_lane(const Fabric& fabric, const GroupLayout& layout) {
  return !fabric.has_rails() || layout.inside[fabric.rail_level] == 1;
}

PerLevel exits_everywhere(const GroupLayout& layout, const PerLevel& exits) {
  PerLevel crossed{};
  for (std::size_t l = 0; l <= layout.top; ++l) crossed[l] = exits[l];
  return crossed;
}

StepFlows ring_step(const Fabric& fabric, const GroupLayout& layout, double bytes) {
  StepFlows step;
  step.exits = exits_everywhere(layout, layout.ring_exits);
  step.bytes = bytes;
  step.keeps_lane = ring_keeps_lane(fabric, layout);
  return step;
}

// Links of a device in a full mesh that rings side by side load evenly: to all other members of its unit.
std::int64_t mesh_links(const Fabric& fabric, const GroupLayout& layout) {
  return fabric.full_mesh ? (layout.top == 0 ? layout.members : layout.inside[1]) - 1 : 0;
}

// Rings that can leave an innermost unit side by side.
std::int64_t rings_side_by_side(const Fabric& fabric, const GroupLayout& layout) {
  if (!layout.in_order || !layout.alike || layout.top == 0) return 1;
  const std::size_t level = fabric.has_rails() && layout.top >= fabric.rail_level ? fabric.rail_level : 1;
  return layout.fewest[level] == layout.inside[level] ? layout.inside[level] : 1;
}

// Latency of a chain through all members, and the slowest link that a stream through it meets.
CollectiveTime chain_broadcast(const Fabric& fabric, const GroupLayout& layout, double bytes) {
  Sum sum(Algorithm::ring);
  double hops_above = 1;  // chains need one hop less than there are units
  for (std::size_t l = layout.top + 1; l-- > 0;) {
    const double units = real(layout.members) / real(layout.inside[l]);
    StepTime hop;
    hop.latency_s = fabric.latency_s[l] + fabric.message_overhead_s;
    sum.add(hop, std::max(0.0, units - hops_above));
    hops_above = std::max(hops_above, units);
  }
  sum.add(stream_time(fabric, layout, ring_step(fabric, layout, bytes)), 1);
  return sum.total();
}

std::optional<CollectiveTime> ring_time(const Fabric& fabric, const GroupLayout& layout, Collective collective,
                                        double bytes) {
  if (collective == Collective::broadcast) return chain_broadcast(fabric, layout, bytes);
  const auto rounds = passes(collective);
  if (!rounds) return std::nullopt;
  const double n = real(layout.members);
  Sum sum(Algorithm::ring);
  sum.add(step_time(fabric, layout, ring_step(fabric, layout, bytes / n)), *rounds * (n - 1));
  return sum.total();
}

std::optional<CollectiveTime> multi_ring_time(const Fabric& fabric, const GroupLayout& layout, Collective collective,
                                              double bytes) {
  const auto rounds = passes(collective);
  const std::int64_t rings = rings_side_by_side(fabric, layout);
  const bool in_mesh = fabric.full_mesh && layout.top == 0 && layout.members > 2;
  if (!rounds || (rings < 2 && !in_mesh)) return std::nullopt;
  const double n = real(layout.members);
  StepFlows step = ring_step(fabric, layout, bytes / (n * real(rings)));
  step.keeps_lane = true;
  step.rings = rings;
  step.spread = mesh_links(fabric, layout);
  Sum sum(Algorithm::multi_ring);
  sum.add(step_time(fabric, layout, step), *rounds * (n - 1));
  return sum.total();
}

struct Ranks {
  std::int64_t begin;
  std::int64_t end;
};

// Members of `some` whose partner, 2^bit ranks away, lies outside `around` (which holds them).
std::int64_t partners_outside(Ranks some, Ranks around, int bit) {
  const std::int64_t distance = std::int64_t{1} << bit;
  // Ranks below x with that bit clear.
  const auto clear_below = [&](std::int64_t x) {
    return x / (2 * distance) * distance + std::min(x % (2 * distance), distance);
  };
  const std::int64_t up_end = std::max(some.begin, std::min(some.end, around.end - distance));
  const std::int64_t up = clear_below(up_end) - clear_below(some.begin);
  const std::int64_t down_begin = std::min(some.end, std::max(some.begin, around.begin + distance));
  const std::int64_t down = (some.end - down_begin) - (clear_below(some.end) - clear_below(down_begin));
  return some.end - some.begin - up - down;
}

// Ranks of the first, the second and the last unit of a level; the others repeat the second.
std::array<Ranks, 3> typical_units(const GroupLayout& layout, std::size_t l) {
  const std::int64_t n = layout.members;
  const std::int64_t head = layout.head[l];
  const std::int64_t full = layout.inside[l];
  const std::int64_t last = head + (n - head) / full * full;
  return {Ranks{0, head}, Ranks{head, std::min(n, head + full)}, Ranks{std::min(last, n), n}};
}

// Of the exits of level-l units, those that leave the level-L unit too: looked up where level-L units begin and end.
std::int64_t climbing_partners(const GroupLayout& layout, std::size_t l, std::size_t above, int bit) {
  std::int64_t most = 0;
  for (const Ranks& outer : typical_units(layout, above)) {
    const std::int64_t width = std::min(layout.inside[l], outer.end - outer.begin);
    const std::int64_t first = outer.begin == 0 ? std::min(layout.head[l], width) : width;
    most = std::max({most, partners_outside({outer.begin, outer.begin + first}, outer, bit),
                     partners_outside({outer.end - width, outer.end}, outer, bit)});
  }
  return most;
}

StepFlows halving_step(const Fabric& fabric, const GroupLayout& layout, int bit, double bytes) {
  StepFlows step;
  step.bytes = bytes;
  bool aligned = true;
  for (std::size_t l = 0; l <= layout.top; ++l) {
    const std::int64_t inside = layout.inside[l];
    if (layout.head[l] == inside && std::has_single_bit(static_cast<std::uint64_t>(inside))) {
      step.exits[l] = (std::int64_t{1} << bit) < inside ? 0 : inside;
      continue;
    }
    for (const Ranks& unit : typical_units(layout, l)) {
      step.exits[l] = std::max(step.exits[l], partners_outside(unit, unit, bit));
    }
    aligned = aligned && layout.head[l] == inside;
  }
  if (!aligned) {
    step.climbing.emplace();
    for (std::size_t l = 0; l <= layout.top; ++l) {
      for (std::size_t above = l; above <= layout.top; ++above) {
        (*step.climbing)[l][above] = above == l ? step.exits[l] : climbing_partners(layout, l, above, bit);
      }
    }
  }
  step.keeps_lane = !fabric.has_rails() || (std::int64_t{1} << bit) % layout.lane_period == 0;
  return step;
}

std::optional<CollectiveTime> halving_doubling(const Fabric& fabric, const GroupLayout& layout, Collective collective,
                                               double bytes) {
  const auto rounds = passes(collective);
  const auto n = static_cast<std::uint64_t>(layout.members);
  if (!rounds || !std::has_single_bit(n) || !layout.in_order || !layout.alike) return std::nullopt;
  const int steps = static_cast<int>(std::bit_width(n)) - 1;
  Sum sum(Algorithm::halving_doubling);
  double part = bytes;
  for (int k = 0; k < steps; ++k) {
    part /= 2;
    sum.add(step_time(fabric, layout, halving_step(fabric, layout, k, part)), *rounds);
  }
  return sum.total();
}

// Double binary trees across innermost units, chains inside; with rails one pair of trees per lane.
std::optional<CollectiveTime> tree_time(const Fabric& fabric, const GroupLayout& layout, Collective collective,
                                        double bytes) {
  if (collective != Collective::all_reduce && collective != Collective::broadcast) return std::nullopt;
  const double rounds = collective == Collective::all_reduce ? 2 : 1;
  Sum sum(Algorithm::tree);
  for (std::size_t l = 0; l <= layout.top; ++l) {
    const std::int64_t above = l == layout.top ? layout.members : layout.most[l + 1];
    const std::int64_t children = ceil_div(above, layout.alike ? layout.inside[l] : layout.fewest[l]);
    const auto depth = std::bit_width(static_cast<std::uint64_t>(children - 1));  // of a binary tree
    StepTime hop;
    hop.latency_s = fabric.latency_s[l] + fabric.message_overhead_s;
    const double hops = l == 0 && layout.top > 0 ? real(layout.most[1] - 1) : real(depth);
    sum.add(hop, rounds * hops);
  }
  const std::int64_t trees = rings_side_by_side(fabric, layout);
  StepFlows flows = ring_step(fabric, layout, bytes / real(trees));
  flows.rings = trees;
  if (trees > 1) flows.spread = mesh_links(fabric, layout);
  flows.keeps_lane = true;
  sum.add(stream_time(fabric, layout, flows), rounds);
  return sum.total();
}

// Flows of one member to members beyond the level-`top` unit, by way of one uplink of level l.
double messages_on_link(const Fabric& fabric, const GroupLayout& layout, std::size_t l, std::size_t top) {
  if (fabric.full_mesh && l == 0) return layout.top == 0 || layout.most[1] > 1 ? 1 : 0;
  const double n = real(layout.members);
  const std::int64_t inside_l = std::min(layout.inside[l], layout.inside[top]);
  const double beyond = n - real(layout.inside[top]);
  if (fabric.has_rails()) {
    const double beyond_of_one = n - real(layout.fewest[top]);
    const std::size_t r = fabric.rail_level;
    const std::int64_t in_node = std::min(layout.inside[r], layout.members);
    if (top < r && layout.top >= r) {
      return real(inside_l) * real(layout.most[r] - layout.inside[top]) * real(layout.sharing[l][top]);
    }
    if (top >= r && l == r) return beyond_of_one;
    if (top >= r && fabric.lanes(l)) {
      const std::int64_t lane_groups =
          ceil_div(layout.groups_inside[l], std::max<std::int64_t>(1, layout.groups_inside[r]));
      return real(ceil_div(layout.inside[l], in_node)) * beyond * real(lane_groups);
    }
  }
  return real(inside_l) * beyond * real(layout.sharing[l][top]);
}

// Messages that change lanes under rail switches climb one level higher than they would have to.
StepTime lane_changes(const Fabric& fabric, const GroupLayout& layout, double chunk) {
  StepTime time;
  const std::size_t r = fabric.rail_level;
  const std::int64_t in_node = std::min(layout.inside[r], layout.members);
  const std::int64_t nodes = ceil_div(layout.inside[r + 1], in_node);
  const double climbing = real(layout.members - layout.fewest[r] - (nodes - 1));
  if (climbing <= 0 || in_node == 1) return time;
  const std::int64_t lane_groups =
      ceil_div(layout.groups_inside[r + 1], std::max<std::int64_t>(1, layout.groups_inside[r]));
  const double port_s = chunk * climbing / fabric.capacity[r];
  const double lane_s = chunk * climbing * real(nodes * lane_groups) / fabric.capacity[r + 1];
  time.latency_s = fabric.latency_s[r + 1];
  time.transfer_s = std::max(port_s, lane_s);
  time.link = lane_s > port_s ? r + 1 : r;
  return time;
}

CollectiveTime direct_all_to_all(const Fabric& fabric, const GroupLayout& layout, double bytes) {
  const double n = real(layout.members);
  StepTime slowest;
  const auto keep_slower = [&](const StepTime& time) {
    if (time.total() >= slowest.total()) slowest = time;
  };
  for (std::size_t top = 0; top <= layout.top; ++top) {
    StepTime time;
    time.latency_s = fabric.latency_s[top];
    for (std::size_t l = fabric.first_link(top); l <= top; ++l) {
      const double transfer_s = bytes / n * messages_on_link(fabric, layout, l, top) / fabric.capacity[l];
      if (transfer_s > time.transfer_s) {
        time.transfer_s = transfer_s;
        time.link = l;
      }
    }
    keep_slower(time);
  }
  if (fabric.rail_switches && layout.top >= fabric.rail_level) keep_slower(lane_changes(fabric, layout, bytes / n));
  slowest.latency_s += (n - 1) * fabric.message_overhead_s;
  Sum sum(Algorithm::direct);
  sum.add(slowest, 1);
  return sum.total();
}

CollectiveTime pairwise_all_to_all(const Fabric& fabric, const GroupLayout& layout, double bytes) {
  const std::int64_t n = layout.members;
  Sum sum(Algorithm::pairwise);
  for (std::int64_t shift = 1; shift < n; ++shift) {
    StepFlows step;
    step.bytes = bytes / real(n);
    for (std::size_t l = 0; l <= layout.top; ++l) {
      const std::int64_t p = layout.inside[l];
      step.exits[l] = p - std::max<std::int64_t>(0, p - shift) - std::max<std::int64_t>(0, p - (n - shift));
    }
    if (fabric.has_rails()) step.keeps_lane = shift % layout.lane_period == 0;
    sum.add(step_time(fabric, layout, step), 1);
  }
  return sum.total();
}

std::optional<CollectiveTime> direct_time(const Fabric& fabric, const GroupLayout& layout, Collective collective,
                                          double bytes) {
  if (collective == Collective::all_to_all) return direct_all_to_all(fabric, layout, bytes);
  if (collective != Collective::send_recv) return std::nullopt;
  StepFlows step = ring_step(fabric, layout, bytes);
  Sum sum(Algorithm::direct);
  sum.add(step_time(fabric, layout, step), 1);
  return sum.total();
}

// The dimensions that follow the levels, innermost first; with `merged` everything above the node is one dimension.
std::vector<std::int64_t> level_dims(const Fabric& fabric, const GroupLayout& layout, bool merged) {
  std::vector<std::int64_t> dims;
  std::int64_t below = 1;
  for (std::size_t l = 1; l <= layout.top + 1; ++l) {
    const bool last = l == layout.top + 1 || l == fabric.levels;
    const std::int64_t inside = last ? layout.members : layout.inside[l];
    if (!last && merged && !dims.empty()) continue;
    if (inside % below != 0 || (!last && layout.fewest[l] != inside)) return {};  // rings need equal parts
    if (inside > below) dims.push_back(inside / below);
    below = inside;
  }
  return dims;
}

std::optional<CollectiveTime> best_hierarchy(const Fabric& fabric, const GroupLayout& layout, Collective collective,
                                             double bytes) {
  std::optional<CollectiveTime> best;
  for (const bool merged : {false, true}) {
    const auto dims = level_dims(fabric, layout, merged);
    if (dims.size() < 2) continue;
    const auto time = hierarchical_time(fabric, layout, collective, bytes, dims);
    if (time && (!best || time->seconds < best->seconds)) best = time;
  }
  return best;
}

}  // namespace

std::optional<CollectiveTime> hierarchical_time(const Fabric& fabric, const GroupLayout& layout, Collective collective,
                                                double bytes, std::span<const std::int64_t> dims) {
  const auto rounds = passes(collective);
  if (!rounds || !layout.in_order || !layout.alike) return std::nullopt;
  Sum sum(Algorithm::hierarchical);
  std::int64_t below = 1;
  for (const std::int64_t dim : dims) {
    const std::int64_t span = checked_product({below, dim});
    StepFlows step;
    step.bytes = bytes / real(span);
    for (std::size_t l = 0; l <= layout.top; ++l) {
      step.exits[l] = layout.inside[l] >= span ? 0 : std::min(layout.inside[l], below);
    }
    step.keeps_lane = !fabric.has_rails() || below % layout.inside[fabric.rail_level] == 0;
    if (fabric.full_mesh && (layout.top == 0 || span <= layout.inside[1])) step.spread = dim - 1;
    sum.add(step_time(fabric, layout, step), *rounds * real(dim - 1));
    below = span;
  }
  if (below != layout.members) return std::nullopt;
  return sum.total();
}

std::optional<CollectiveTime> algorithm_time(const Fabric& fabric, const GroupLayout& layout, Collective collective,
                                             double bytes, Algorithm algorithm) {
  if (layout.members < 2) return CollectiveTime{.algorithm = algorithm};
  switch (algorithm) {
    case Algorithm::ring: return ring_time(fabric, layout, collective, bytes);
    case Algorithm::multi_ring: return multi_ring_time(fabric, layout, collective, bytes);
    case Algorithm::hierarchical: return best_hierarchy(fabric, layout, collective, bytes);
    case Algorithm::halving_doubling: return halving_doubling(fabric, layout, collective, bytes);
    case Algorithm::tree: return tree_time(fabric, layout, collective, bytes);
    case Algorithm::direct: return direct_time(fabric, layout, collective, bytes);
    case Algorithm::pairwise:
      if (collective != Collective::all_to_all) return std::nullopt;
      return pairwise_all_to_all(fabric, layout, bytes);
    case Algorithm::measured: return std::nullopt;
  }
  return std::nullopt;
}

CollectiveTime best_time(const Fabric& fabric, const GroupLayout& layout, Collective collective, double bytes,
                         AlgorithmSet allowed) {
  for (const AlgorithmSet set : {allowed, AlgorithmSet::all()}) {
    std::optional<CollectiveTime> best;
    for (const AlgorithmFacts& row : kAlgorithmTable) {
      if (!row.is_tried || !set.has(row.algorithm)) continue;
      const auto time = algorithm_time(fabric, layout, collective, bytes, row.algorithm);
      if (time && (!best || time->seconds < best->seconds)) best = time;
    }
    if (best) return *best;
  }
  NEST_CHECK(false, "every collective has an algorithm");
  return {};
}

}  // namespace nest::cluster
