#include "rivals/simple_network.h"

#include <algorithm>
#include <utility>

#include "base/index.h"

namespace nest::rivals {
namespace {

struct Link {
  double bytes_per_s = 0;
  double latency_s = 0;
  bool operator==(const Link&) const = default;
};

void add_new(std::vector<Link>& links, const Link& link) {
  if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
}

cluster::Level level_of(const char* name, std::int64_t group, const Link& link) {
  cluster::Level level;
  level.name = name;
  level.group = group;
  level.bandwidth_bytes_per_s = link.bytes_per_s;
  level.latency_s = link.latency_s;
  return level;
}

cluster::Cluster with_levels(const cluster::Cluster& cluster, std::vector<cluster::Level> levels) {
  cluster::Cluster simple;
  simple.name = cluster.name;
  simple.device = cluster.device;
  simple.devices = cluster.devices;
  simple.algorithms = cluster.algorithms;
  simple.levels = std::move(levels);
  simple.fabric = cluster::make_fabric(simple.levels, simple.devices);
  simple.fabric.message_overhead_s =
      cluster.torus ? cluster.torus->message_overhead_s : cluster.fabric.message_overhead_s;
  return simple;
}

}  // namespace

std::vector<cluster::Cluster> flat_networks(const cluster::Cluster& cluster) {
  if (!cluster.torus && cluster.fabric.levels == 1) return {cluster};
  std::vector<Link> links;
  for (const cluster::LevelSummary& level : cluster::summarise(cluster)) {
    add_new(links, {level.link_bytes_per_s, level.latency_s});
    add_new(links, {level.device_bytes_per_s, level.latency_s});
  }
  std::vector<cluster::Cluster> networks;
  networks.reserve(links.size());
  for (const Link& link : links) networks.push_back(with_levels(cluster, {level_of("node", cluster.devices, link)}));
  return networks;
}

std::vector<cluster::Cluster> two_level_networks(const cluster::Cluster& cluster) {
  if (cluster.torus) return flat_networks(cluster);
  if (cluster.fabric.levels <= 2 && cluster.fabric.regular) return {cluster};
  const std::vector<cluster::LevelSummary> levels = cluster::summarise(cluster);
  const std::int64_t node = cluster::devices_per_node(cluster).value();
  std::vector<Link> inside, between;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const cluster::LevelSummary& level = levels[l];
    if (l <= cluster.node_level) {
      add_new(inside, {level.link_bytes_per_s, level.latency_s});
      continue;
    }
    // A port of each device where there are rails; else the link of a node.
    const double ports = cluster.fabric.has_rails() ? 1.0 : real(node);
    add_new(between, {level.device_bytes_per_s * ports, level.latency_s});
    add_new(between, {level.link_bytes_per_s, level.latency_s});
  }
  if (between.empty()) return flat_networks(cluster);
  std::vector<cluster::Cluster> networks;
  for (const Link& port : inside) {
    for (const Link& uplink : between) {
      cluster::Level outer = level_of("cluster", (cluster.devices + node - 1) / node, uplink);
      outer.rails = cluster.fabric.has_rails();
      outer.latency_s = std::max(outer.latency_s, port.latency_s);
      cluster::Level inner = level_of("node", node, port);
      inner.full_mesh = cluster.node_level == 0 && cluster.fabric.full_mesh;
      networks.push_back(with_levels(cluster, {inner, outer}));
    }
  }
  return networks;
}

}  // namespace nest::rivals
