#include "cluster/link_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <queue>

#include "base/error.h"

namespace nest::cluster {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();

struct Edge {
  std::size_t to;
  double latency_s;
  double capacity;
  std::size_t back;  // index of the opposite edge at `to`
};

class Graph {
 public:
  Graph(const LinkGraph& graph, bool devices_forward)
      : devices_(graph.devices), forward_(devices_forward), edges_(graph.devices + graph.switches) {
    for (const GraphLink& link : graph.links) {
      edges_[link.from].push_back({link.to, link.latency_s, link.bandwidth_bytes_per_s, edges_[link.to].size()});
      edges_[link.to].push_back({link.from, link.latency_s, link.bandwidth_bytes_per_s, edges_[link.from].size() - 1});
    }
  }

  std::size_t devices() const { return devices_; }
  bool is_device(std::size_t vertex) const { return vertex < devices_; }

  // Least latency from one device to all vertices.
  std::vector<double> latencies_from(std::size_t source) const {
    std::vector<double> best(edges_.size(), kUnreached);
    using Entry = std::pair<double, std::size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    best[source] = 0;
    open.push({0, source});
    while (!open.empty()) {
      const auto [latency_s, vertex] = open.top();
      open.pop();
      if (latency_s > best[vertex] || (!forward_ && vertex != source && is_device(vertex))) continue;
      for (const Edge& edge : edges_[vertex]) {
        if (latency_s + edge.latency_s < best[edge.to]) {
          best[edge.to] = latency_s + edge.latency_s;
          open.push({best[edge.to], edge.to});
        }
      }
    }
    return best;
  }

  // Maximum flow from some devices to others, by shortest augmenting paths.
  double max_flow(const std::vector<std::size_t>& from, const std::vector<bool>& to) const {
    std::vector<std::vector<double>> left(edges_.size());
    for (std::size_t v = 0; v < edges_.size(); ++v) {
      for (const Edge& edge : edges_[v]) left[v].push_back(edge.capacity);
    }
    std::vector<bool> is_source(edges_.size());
    for (const std::size_t v : from) is_source[v] = true;
    double total = 0;
    for (;;) {
      const double found = augment(from, is_source, to, left);
      if (found <= 0) return total;
      total += found;
    }
  }

 private:
  double augment(const std::vector<std::size_t>& from, const std::vector<bool>& is_source, const std::vector<bool>& to,
                 std::vector<std::vector<double>>& left) const {
    constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    std::vector<std::pair<std::size_t, std::size_t>> came(edges_.size(), {kNone, 0});  // vertex and edge we came by
    std::vector<bool> seen(edges_.size());
    std::queue<std::size_t> open;
    for (const std::size_t v : from) {
      seen[v] = true;
      open.push(v);
    }
    while (!open.empty()) {
      const std::size_t v = open.front();
      open.pop();
      for (std::size_t e = 0; e < edges_[v].size(); ++e) {
        const std::size_t next = edges_[v][e].to;
        if (seen[next] || left[v][e] <= 1e-9 * edges_[v][e].capacity) continue;
        if (is_device(next) && !to[next] && !forward_) continue;
        seen[next] = true;
        came[next] = {v, e};
        if (is_device(next) && to[next]) return push(next, came, is_source, left);
        open.push(next);
      }
    }
    return 0;
  }

  double push(std::size_t sink, const std::vector<std::pair<std::size_t, std::size_t>>& came,
              const std::vector<bool>& is_source, std::vector<std::vector<double>>& left) const {
    double flow = kUnreached;
    for (std::size_t v = sink; !is_source[v]; v = came[v].first)
      flow = std::min(flow, left[came[v].first][came[v].second]);
    for (std::size_t v = sink; !is_source[v]; v = came[v].first) {
      const auto [earlier, e] = came[v];
      left[earlier][e] -= flow;
      left[v][edges_[earlier][e].back] += flow;
    }
    return flow;
  }

  std::size_t devices_;
  bool forward_;
  std::vector<std::vector<Edge>> edges_;
};

std::size_t find_root(std::vector<std::size_t>& parent, std::size_t x) {
  while (parent[x] != x) x = parent[x] = parent[parent[x]];
  return x;
}

// Distinct latencies, those within 0.1% of each other joined, then the closest ones until few enough are left.
std::vector<double> distinct_latencies(const std::vector<std::vector<double>>& between) {
  std::vector<double> all;
  for (std::size_t a = 0; a < between.size(); ++a) {
    for (std::size_t b = a + 1; b < between.size(); ++b) all.push_back(between[a][b]);
  }
  std::sort(all.begin(), all.end());
  std::vector<double> distinct;
  for (const double latency_s : all) {
    if (distinct.empty() || latency_s > distinct.back() * 1.001) {
      distinct.push_back(latency_s);
    } else {
      distinct.back() = latency_s;
    }
  }
  while (distinct.size() > kMaxLevels) {
    std::size_t closest = 0;
    for (std::size_t i = 0; i + 1 < distinct.size(); ++i) {
      if (distinct[i + 1] / distinct[i] < distinct[closest + 1] / distinct[closest]) closest = i;
    }
    distinct.erase(distinct.begin() + static_cast<std::ptrdiff_t>(closest));
  }
  return distinct;
}

using Unit = std::vector<std::size_t>;  // devices

// Units of devices within `latency_s`, in the order of their first device.
std::vector<Unit> units_within(const std::vector<std::vector<double>>& between, double latency_s) {
  const std::size_t n = between.size();
  std::vector<std::size_t> parent(n);
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = a + 1; b < n; ++b) {
      if (between[a][b] <= latency_s) {
        const std::size_t x = find_root(parent, a);
        const std::size_t y = find_root(parent, b);
        parent[std::max(x, y)] = std::min(x, y);
      }
    }
  }
  std::map<std::size_t, Unit> units;
  for (std::size_t a = 0; a < n; ++a) units[find_root(parent, a)].push_back(a);
  std::vector<Unit> listed;
  listed.reserve(units.size());
  for (auto& [root, unit] : units) listed.push_back(std::move(unit));
  return listed;
}

struct Cut {
  double unit = kUnreached;    // narrowest of a whole unit
  double device = kUnreached;  // narrowest of one of its devices
  bool shared = false;         // some unit carries less than its devices could send
};

// What the children of one level can send to the rest of their parent.
Cut narrowest_cut(const Graph& graph, const std::vector<Unit>& children, const std::vector<Unit>& parents) {
  std::vector<std::size_t> parent_of(graph.devices());
  for (std::size_t p = 0; p < parents.size(); ++p) {
    for (const std::size_t d : parents[p]) parent_of[d] = p;
  }
  Cut cut;
  for (const Unit& child : children) {
    const Unit& parent = parents[parent_of[child.front()]];
    if (parent.size() == child.size()) continue;
    std::vector<bool> others(graph.devices());
    for (const std::size_t d : parent) others[d] = true;
    for (const std::size_t d : child) others[d] = false;
    const double whole = graph.max_flow(child, others);
    double sum = 0;
    for (const std::size_t d : child) {
      const double one = child.size() == 1 ? whole : graph.max_flow({d}, others);
      cut.device = std::min(cut.device, one);
      sum += one;
    }
    cut.shared = cut.shared || whole < sum * (1 - 1e-6);
    cut.unit = std::min(cut.unit, whole);
  }
  return cut;
}

// Devices pass messages on only where some could not be reached otherwise, as on a mesh of direct links.
bool needs_forwarding(const LinkGraph& links) {
  const Graph graph(links, false);
  for (std::size_t source = 0; source < links.devices; ++source) {
    const auto latency_s = graph.latencies_from(source);
    const auto end = latency_s.begin() + static_cast<std::ptrdiff_t>(links.devices);
    if (std::find(latency_s.begin(), end, kUnreached) != end) return true;
  }
  return false;
}

}  // namespace

std::size_t first_disconnected(const LinkGraph& graph) {
  const auto latency_s = Graph(graph, true).latencies_from(0);
  for (std::size_t d = 0; d < graph.devices; ++d) {
    if (latency_s[d] == kUnreached) return d;
  }
  return graph.devices;
}

DerivedLevels derive_levels(const LinkGraph& links) {
  const Graph graph(links, needs_forwarding(links));
  std::vector<std::vector<double>> between;
  for (std::size_t d = 0; d < links.devices; ++d) {
    between.push_back(graph.latencies_from(d));
    between.back().resize(links.devices);
  }
  DerivedLevels derived;
  bool has_rails = false;
  std::vector<std::vector<Unit>> partitions;
  for (std::size_t d = 0; d < links.devices; ++d) {
    if (d == 0) partitions.emplace_back();
    partitions[0].push_back({d});
  }
  for (const double latency_s : distinct_latencies(between)) {
    auto units = units_within(between, latency_s);
    if (units.size() == partitions.back().size()) continue;  // joined already through others
    const Cut cut = narrowest_cut(graph, partitions.back(), units);
    Level level;
    level.name = fmt::format("level{}", derived.levels.size() + 1);
    level.latency_s = latency_s;
    level.rails = !derived.levels.empty() && !cut.shared && !has_rails;
    has_rails = has_rails || level.rails;
    level.bandwidth_bytes_per_s = level.rails ? cut.device : cut.unit;
    derived.levels.push_back(level);
    partitions.push_back(std::move(units));
  }
  NEST_CHECK(partitions.back().size() == 1, "the graph is connected");
  // Units contiguous: sort devices by their unit of the outermost level, then of the next …
  derived.order.resize(links.devices);
  std::iota(derived.order.begin(), derived.order.end(), std::size_t{0});
  std::vector<std::vector<std::size_t>> unit_of(partitions.size(), std::vector<std::size_t>(links.devices));
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    for (std::size_t u = 0; u < partitions[p].size(); ++u) {
      for (const std::size_t d : partitions[p][u]) unit_of[p][d] = u;
    }
  }
  std::sort(derived.order.begin(), derived.order.end(), [&](std::size_t a, std::size_t b) {
    for (std::size_t p = partitions.size(); p-- > 0;) {
      if (unit_of[p][a] != unit_of[p][b]) return unit_of[p][a] < unit_of[p][b];
    }
    return false;
  });
  for (std::size_t l = 0; l < derived.levels.size(); ++l) {
    std::vector<std::int64_t> children(partitions[l + 1].size());
    for (const Unit& child : partitions[l]) ++children[unit_of[l + 1][child.front()]];
    std::vector<std::int64_t> counts;  // in the order in which the units come after sorting
    for (std::size_t i = 0; i < derived.order.size(); ++i) {
      const std::size_t unit = unit_of[l + 1][derived.order[i]];
      if (i == 0 || unit != unit_of[l + 1][derived.order[i - 1]]) counts.push_back(children[unit]);
    }
    derived.levels[l].group = *std::max_element(counts.begin(), counts.end());
    const bool even = std::all_of(counts.begin(), counts.end(), [&](std::int64_t c) { return c == counts[0]; });
    if (!even) derived.levels[l].counts = counts;
  }
  return derived;
}

}  // namespace nest::cluster
