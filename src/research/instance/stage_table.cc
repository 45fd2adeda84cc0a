#include "instance/stage_table.h"

#include <algorithm>
#include <limits>

#include "base/index.h"

namespace nest::instance {
namespace {

// Time of one tensor over a link of each level.
class Hops {
 public:
  explicit Hops(const std::vector<ProfileLevel>& levels) {
    double narrowest = std::numeric_limits<double>::infinity();
    for (const ProfileLevel& level : levels) {
      narrowest = std::min(narrowest, level.bandwidth_bytes_per_s);
      links_.push_back({narrowest, level.latency_s});
    }
  }

  int levels() const { return static_cast<int>(links_.size()); }
  double seconds(int level, std::int64_t bytes) const {
    const Link& link = links_[at(level)];
    const double once = real(bytes) / link.bytes_per_s + link.latency_s;
    return level == 0 ? once : 2 * once;
  }

 private:
  struct Link {
    double bytes_per_s;
    double latency_s;
  };
  std::vector<Link> links_;
};

// For each node and level, when the last tensor that crosses the stage's border there arrives; 0 where none does. Grows
// as the border moves away from the graph's end that it started at.
class Arrivals {
 public:
  Arrivals(const Hops& hops, int nodes)
      : hops_(hops), by_level_(at(hops.levels()), std::vector<double>(at(nodes), 0)) {}

  void add(int node, std::int64_t bytes) {
    for (int level = 0; level < hops_.levels(); ++level) {
      double& latest = by_level_[at(level)][at(node)];
      latest = std::max(latest, hops_.seconds(level, bytes));
    }
  }
  const std::vector<double>& at_level(int level) const { return by_level_[at(level)]; }

 private:
  const Hops& hops_;
  std::vector<std::vector<double>> by_level_;
};

enum class End : std::uint8_t { source, destination };

// Edges by the position of one of their ends.
std::vector<std::vector<ProfileEdge>> edges_by(End end, const ProfileGraph& graph) {
  std::vector<std::vector<ProfileEdge>> lists(graph.nodes.size());
  for (const ProfileEdge& edge : graph.edges)
    lists[at(end == End::source ? edge.source : edge.destination)].push_back(edge);
  return lists;
}

}  // namespace

StageTable::StageTable(const ProfileInstance& instance, const ProfileGraph& graph)
    : nodes_(static_cast<int>(graph.nodes.size())) {
  lay_out_rows(instance, graph);
  fill_forward(instance, graph);
  fill_backward(instance, graph);
  if (instance.recompute) fill_recomputed(graph);
}

void StageTable::lay_out_rows(const ProfileInstance& instance, const ProfileGraph& graph) {
  const std::int64_t per_parameter = instance.optimizer == ProfileOptimizer::adam ? 8 : 2;
  std::vector<std::int64_t> resident(1, 0);  // of the nodes [0, end) at s = 1
  leading_parameters_.assign(1, 0);
  for (const ProfileNode& node : graph.nodes) {
    resident.push_back(resident.back() + per_parameter * node.parameter_bytes + node.activation_bytes);
    leading_parameters_.push_back(leading_parameters_.back() + node.parameter_bytes);
  }
  std::size_t cells = 0;
  for (int begin = 0; begin < nodes_; ++begin) {
    const std::int64_t most = resident[at(begin)] + instance.device_memory_bytes;
    const auto beyond = std::upper_bound(resident.begin() + begin, resident.end(), most);
    reach_.push_back(static_cast<int>(beyond - resident.begin()) - 1);
    offset_.push_back(cells);
    cells += row_length(begin);
  }

  // stash(begin, end) = sum over its nodes of what enters there from before begin; `entering` grows as begin moves on.
  const auto leaving = edges_by(End::source, graph);
  std::vector<std::int64_t> entering(at(nodes_), 0);
  deepest_.resize(cells);
  for (int begin = 0; begin < nodes_; ++begin) {
    if (begin > 0) {
      for (const ProfileEdge& edge : leaving[at(begin - 1)]) entering[at(edge.destination)] += edge.bytes;
    }
    std::int64_t stash = 0;
    const std::span<int> deepest_row = row(deepest_, begin);
    for (int node = begin; node < reach(begin); ++node) {
      stash += instance.recompute ? entering[at(node)] : graph.nodes[at(node)].activation_bytes;
      const std::int64_t spare = instance.device_memory_bytes - (resident[at(node + 1)] - resident[at(begin)]);
      const std::int64_t further = stash == 0 ? nodes_ : std::min<std::int64_t>(nodes_, spare / stash);
      deepest_row[at(node - begin)] = static_cast<int>(1 + further);
    }
  }
}

void StageTable::fill_forward(const ProfileInstance& instance, const ProfileGraph& graph) {
  const Hops hops(instance.levels);
  const auto leaving = edges_by(End::source, graph);
  Arrivals arrivals(hops, nodes_);
  forward_.assign(at(hops.levels()), std::vector<double>(deepest_.size()));
  for (int begin = 0; begin < nodes_; ++begin) {
    if (begin > 0) {
      for (const ProfileEdge& edge : leaving[at(begin - 1)]) arrivals.add(edge.destination, edge.bytes);
    }
    for (int level = 0; level < hops.levels(); ++level) {
      const std::vector<double>& arrival = arrivals.at_level(level);
      const std::span<double> ends = row(forward_[at(level)], begin);
      double time = 0;
      for (int node = begin; node < reach(begin); ++node) {
        time = std::max(time, arrival[at(node)]) + graph.nodes[at(node)].forward_s;
        ends[at(node - begin)] = time;
      }
    }
  }
}

void StageTable::fill_backward(const ProfileInstance& instance, const ProfileGraph& graph) {
  const Hops hops(instance.levels);
  const auto arriving = edges_by(End::destination, graph);
  Arrivals arrivals(hops, nodes_);
  backward_.assign(at(hops.levels()), std::vector<double>(deepest_.size()));
  for (int end = nodes_; end > 0; --end) {
    if (end < nodes_) {
      for (const ProfileEdge& edge : arriving[at(end)]) arrivals.add(edge.source, edge.bytes);
    }
    for (int level = 0; level < hops.levels(); ++level) {
      const std::vector<double>& arrival = arrivals.at_level(level);
      double time = 0;
      // Once one interval does not fit, no longer one with the same end does.
      for (int begin = end - 1; begin >= 0 && end <= reach(begin); --begin) {
        time = std::max(time, arrival[at(begin)]) + graph.nodes[at(begin)].backward_s;
        row(backward_[at(level)], begin)[at(end - begin - 1)] = time;
      }
    }
  }
}

void StageTable::fill_recomputed(const ProfileGraph& graph) {
  recomputed_.resize(deepest_.size());
  std::vector<double> forward_again(at(nodes_), 0);  // R of [begin, end), by begin
  std::vector<double> time(at(nodes_));
  for (int end = 1; end <= nodes_; ++end) {
    int first = end;  // of the intervals that fit
    while (first > 0 && end <= reach(first - 1)) --first;
    for (int begin = 0; begin < end; ++begin) forward_again[at(begin)] += graph.nodes[at(end - 1)].backward_s;
    std::copy(forward_again.begin() + first, forward_again.begin() + end, time.begin() + first);
    for (int node = end - 1; node >= first; --node) {
      const double step = graph.nodes[at(node)].backward_s;
      for (int begin = first; begin <= node; ++begin) time[at(begin)] += step;
    }
    for (int begin = first; begin < end; ++begin) row(recomputed_, begin)[at(end - begin - 1)] = time[at(begin)];
  }
}

}  // namespace nest::instance
