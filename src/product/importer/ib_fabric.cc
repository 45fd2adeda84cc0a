#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "importer/hostlist.h"
#include "importer/ibnetdiscover.h"
#include "nest/option.h"

namespace nest::importer {
namespace {

constexpr std::string_view kAggregation = "Mellanox Technologies Aggregation Node";

// Numbers inside names compare by value: node2 before node10.
bool natural_less(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    const auto digits = [&](std::string_view text, std::size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const std::size_t begin = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      return text.substr(begin, at - begin);
    };
    const std::string_view left = digits(a, i);
    const std::string_view right = digits(b, j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

// A port of a host, seen from the switch.
struct HostPort {
  std::string adapter;  // description
  std::size_t leaf = 0;
  double bytes_per_s = 0;
};

struct Capacity {
  double bytes_per_s = 0;
  std::size_t links = 0;
  bool known = true;

  void add(const IbLink& link) {
    bytes_per_s += link.bytes_per_s;
    ++links;
    known = known && link.bytes_per_s > 0;
  }
};

class SubnetFabric {
 public:
  SubnetFabric(const IbSubnet& subnet, const FabricPart& part, const std::string& file)
      : subnet_(subnet), part_(part), file_(file), switch_number_(subnet.nodes.size(), kNoUnit) {}

  ImportedFabric build() {
    find_hosts();
    find_switches();
    FabricGraph graph = restrict_graph(make_graph(), {part_.only, {}}, file_);
    const NodeTree tree = connected_tree(graph, file_);
    ImportedFabric fabric;
    fabric.kind = "InfiniBand subnet";
    for (const std::size_t node : tree.order) fabric.nodes.push_back(graph.nodes[node]);
    for (std::size_t l = 0; l < tree.levels.size(); ++l) add_level(graph, tree, l, fabric);
    describe_ports(tree, graph, fabric);
    if (routers_ > 0) fabric.notes.push_back(fmt::format("{} routers are left out", routers_));
    return fabric;
  }

 private:
  bool is_host(std::size_t node) const {
    const IbNode& one = subnet_.nodes[node];
    return one.kind == IbNode::Kind::channel_adapter && !std::string_view(one.description).starts_with(kAggregation) &&
           !excluded_.contains(host_of(one.description));
  }
  bool is_switch(std::size_t node) const { return subnet_.nodes[node].kind == IbNode::Kind::switch_; }

  void find_hosts() {
    excluded_.insert(part_.without.begin(), part_.without.end());
    std::set<std::string> missing = excluded_;
    std::map<std::string, std::size_t> adapters;
    for (std::size_t n = 0; n < subnet_.nodes.size(); ++n) {
      const IbNode& one = subnet_.nodes[n];
      if (one.kind == IbNode::Kind::router) ++routers_;
      if (one.kind != IbNode::Kind::channel_adapter) continue;
      missing.erase(host_of(one.description));
      if (!is_host(n)) continue;
      if (host_of(one.description).empty()) {
        throw InputError(fmt::format("{}: adapter 0x{} has no description, so its host is not known", file_, one.guid));
      }
    }
    if (!missing.empty()) {
      throw InputError(
          fmt::format("{}: {}: there is no host `{}`", file_, option("exclude"), clip(*missing.begin(), 60)));
    }
    for (const IbLink& link : subnet_.links) {
      if (is_host(link.a) && is_switch(link.b)) add_port(link, link.a, link.b, adapters);
      if (is_host(link.b) && is_switch(link.a)) add_port(link, link.b, link.a, adapters);
    }
    if (ports_.empty()) throw InputError(fmt::format("{}: no host is linked to a switch", file_));
    for (auto& [name, ports] : ports_) {
      std::sort(ports.begin(), ports.end(),
                [](const HostPort& a, const HostPort& b) { return natural_less(a.adapter, b.adapter); });
    }
  }

  // Two adapters of one description, on different devices, cannot be told apart: all hosts might be called the same.
  void add_port(const IbLink& link, std::size_t adapter, std::size_t leaf,
                std::map<std::string, std::size_t>& adapters) {
    const std::string& description = subnet_.nodes[adapter].description;
    const auto known = adapters.emplace(description, adapter);
    if (!known.second && known.first->second != adapter) {
      throw InputError(fmt::format(
          "{}: two adapters, 0x{} and 0x{}, are both called `{}`; hosts are told apart by the first word of it", file_,
          subnet_.nodes[known.first->second].guid, subnet_.nodes[adapter].guid, clip(description, 60)));
    }
    ports_[host_of(description)].push_back({description, leaf, link.bytes_per_s});
  }

  // Breadth first from the leaves.
  void find_switches() {
    std::vector<std::vector<std::size_t>> neighbours(subnet_.nodes.size());
    for (const IbLink& link : subnet_.links) {
      if (!is_switch(link.a) || !is_switch(link.b) || link.a == link.b) continue;
      neighbours[link.a].push_back(link.b);
      neighbours[link.b].push_back(link.a);
    }
    std::deque<std::size_t> open;
    const auto reach = [&](std::size_t node, std::size_t height) {
      if (switch_number_[node] != kNoUnit) return;
      if (switches_.size() >= kMostSwitches) {
        throw InputError(fmt::format("{}: more than {} switches", file_, kMostSwitches));
      }
      switch_number_[node] = switches_.size();
      FabricSwitch made;
      made.name = switch_name_of(subnet_.nodes[node].description);
      made.height = height;
      switches_.push_back(std::move(made));
      open.push_back(node);
    };
    for (const auto& [name, ports] : ports_) {
      for (const HostPort& port : ports) reach(port.leaf, 0);
    }
    while (!open.empty()) {
      const std::size_t node = open.front();
      open.pop_front();
      for (const std::size_t next : neighbours[node]) reach(next, switches_[switch_number_[node]].height + 1);
    }
  }

  FabricGraph make_graph() {
    FabricGraph graph;
    for (const auto& [name, ports] : ports_) graph.nodes.push_back(name);
    if (graph.nodes.size() > kMostHosts) throw InputError(fmt::format("{}: more than {} hosts", file_, kMostHosts));
    std::sort(graph.nodes.begin(), graph.nodes.end(), natural_less);
    graph.switches = switches_;
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      for (const HostPort& port : ports_[graph.nodes[node]]) {
        auto& nodes = graph.switches[switch_number_[port.leaf]].nodes;
        if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
      }
    }
    for (const IbLink& link : subnet_.links) {
      if (!is_switch(link.a) || !is_switch(link.b)) continue;
      const std::size_t a = switch_number_[link.a];
      const std::size_t b = switch_number_[link.b];
      if (a == kNoUnit || b == kNoUnit || a == b) continue;
      const bool a_is_lower = switches_[a].height < switches_[b].height;
      if (switches_[a].height == switches_[b].height) {
        graph.peers.push_back({a, b});
      } else {
        graph.switches[a_is_lower ? b : a].switches.push_back(a_is_lower ? a : b);
      }
    }
    return graph;
  }

  void add_level(const FabricGraph& graph, const NodeTree& tree, std::size_t l, ImportedFabric& fabric) const {
    const NodeTreeLevel& level = tree.levels[l];
    std::size_t heights = 0;
    for (const FabricSwitch& one : graph.switches) heights = std::max(heights, one.height + 1);
    FabricLevel made;
    made.name = level.height == heights ? "global" : tier_name(level.height);
    made.children = level.children;
    if (level.height > 0 && l > 0) {
      const auto uplinks = uplinks_of(tree, l, level.height == heights);
      describe_uplinks(uplinks, fabric.levels.back().name, made);
    }
    fabric.levels.push_back(std::move(made));
  }

  // The links of every child of a level into it.
  std::vector<Capacity> uplinks_of(const NodeTree& tree, std::size_t l, bool between_peers) const {
    const auto& child_of = tree.levels[l - 1].unit_of_switch;
    std::vector<Capacity> uplinks(tree.levels[l - 1].children.size());
    for (const IbLink& link : subnet_.links) {
      if (!is_switch(link.a) || !is_switch(link.b)) continue;
      const std::size_t a = switch_number_[link.a];
      const std::size_t b = switch_number_[link.b];
      if (a == kNoUnit || b == kNoUnit) continue;
      const std::size_t height = tree.levels[l].height;
      if (between_peers) {
        if (switches_[a].height != switches_[b].height || child_of[a] == child_of[b]) continue;
        if (child_of[a] != kNoUnit) uplinks[child_of[a]].add(link);
        if (child_of[b] != kNoUnit) uplinks[child_of[b]].add(link);
      } else if (std::max(switches_[a].height, switches_[b].height) == height) {
        const std::size_t lower = switches_[a].height < switches_[b].height ? a : b;
        if (switches_[lower].height < height && child_of[lower] != kNoUnit) uplinks[child_of[lower]].add(link);
      }
    }
    return uplinks;
  }

  static void describe_uplinks(const std::vector<Capacity>& uplinks, const std::string& child, FabricLevel& level) {
    const Capacity* least = nullptr;
    const Capacity* most = nullptr;
    for (const Capacity& one : uplinks) {
      if (one.links == 0 || !one.known) return;
      if (!least || one.bytes_per_s < least->bytes_per_s) least = &one;
      if (!most || one.bytes_per_s > most->bytes_per_s) most = &one;
    }
    if (!least) return;
    level.bandwidth_bytes_per_s = least->bytes_per_s;
    level.bandwidth_from = least->links == 1 ? "one link" : fmt::format("{} links", least->links);
    if (most->bytes_per_s > least->bytes_per_s) {
      level.bandwidth_from = fmt::format("the least of the {}s, {} links; others have up to {}", child, least->links,
                                         format_bandwidth(most->bytes_per_s));
    }
  }

  void describe_ports(const NodeTree& tree, const FabricGraph& graph, ImportedFabric& fabric) const {
    double slowest = 0;
    double fastest = 0;
    bool known = true;
    std::map<std::size_t, std::vector<std::string>> hosts_by_ports;
    for (const std::string& name : fabric.nodes) {
      const auto& ports = ports_.at(name);
      fabric.ports.push_back(static_cast<std::int64_t>(ports.size()));
      hosts_by_ports[ports.size()].push_back(name);
      for (const HostPort& port : ports) {
        known = known && port.bytes_per_s > 0;
        slowest = slowest == 0 ? port.bytes_per_s : std::min(slowest, port.bytes_per_s);
        fastest = std::max(fastest, port.bytes_per_s);
      }
    }
    if (known) fabric.port_bytes_per_s = slowest;
    if (known && fastest > slowest) {
      fabric.notes.push_back(fmt::format("ports of hosts run at {} to {}; the slowest is taken for all",
                                         format_bandwidth(slowest), format_bandwidth(fastest)));
    }
    const auto usual = std::max_element(hosts_by_ports.begin(), hosts_by_ports.end(),
                                        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    for (const auto& [count, hosts] : hosts_by_ports) {
      if (count == usual->first) continue;
      fabric.notes.push_back(
          fmt::format("{} hosts have {} ports where most have {}: {}; hosts without devices are to be "
                      "excluded",
                      hosts.size(), count, usual->first, clip(compress_hostlist(hosts), 80)));
    }
    if (hosts_by_ports.size() == 1 && usual->first > 1) find_lanes(tree, graph, fabric);
  }

  // Whether the k-th ports of all hosts below one level-0 unit lead to one switch, and different ones to different
  // switches.
  void find_lanes(const NodeTree& tree, const FabricGraph& graph, ImportedFabric& fabric) const {
    if (tree.levels.empty() || tree.levels[0].height != 0) return;
    const std::size_t ports = static_cast<std::size_t>(fabric.ports.front());
    std::vector<std::vector<std::size_t>> lanes(tree.levels[0].children.size());
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      std::vector<std::size_t> leaves;
      for (const HostPort& port : ports_.at(graph.nodes[node])) leaves.push_back(switch_number_[port.leaf]);
      auto& expected = lanes[tree.levels[0].unit_of_node[node]];
      if (expected.empty()) expected = leaves;
      if (expected != leaves || std::set<std::size_t>(leaves.begin(), leaves.end()).size() != ports) return;
    }
    fabric.ports_of_node_apart = true;
    std::map<std::size_t, Capacity> uplinks;
    for (const auto& leaves : lanes) {
      for (const std::size_t leaf : leaves) uplinks[leaf];
    }
    for (const IbLink& link : subnet_.links) {
      if (!is_switch(link.a) || !is_switch(link.b)) continue;
      for (const std::size_t end : {link.a, link.b}) {
        const auto lane = uplinks.find(switch_number_[end]);
        if (lane != uplinks.end()) lane->second.add(link);
      }
    }
    double least = 0;
    for (const auto& [leaf, capacity] : uplinks) {
      if (capacity.links == 0 || !capacity.known) return;
      least = least == 0 ? capacity.bytes_per_s : std::min(least, capacity.bytes_per_s);
    }
    fabric.lane_bytes_per_s = least;
  }

  const IbSubnet& subnet_;
  const FabricPart& part_;
  const std::string& file_;
  std::set<std::string> excluded_;
  std::map<std::string, std::vector<HostPort>> ports_;  // by host
  std::vector<std::size_t> switch_number_;              // by node of the subnet
  std::vector<FabricSwitch> switches_;
  std::size_t routers_ = 0;
};

}  // namespace

ImportedFabric fabric_of_subnet(const IbSubnet& subnet, const FabricPart& part, const std::string& file) {
  return SubnetFabric(subnet, part, file).build();
}

}  // namespace nest::importer
