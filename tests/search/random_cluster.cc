// Clusters of up to two dozen devices.
#include <algorithm>

#include "problem.h"

namespace nest::test {
namespace {

constexpr std::int64_t kMostDevices = 24;

void add_level(Dice& dice, cluster::Cluster& cluster, std::int64_t group, double bandwidth) {
  constexpr const char* kNames[] = {"node", "rack", "pod", "site"};
  cluster::Level level;
  level.name = kNames[cluster.levels.size()];
  level.group = group;
  level.bandwidth_bytes_per_s = bandwidth;
  const double below = cluster.levels.empty() ? 1e-6 : cluster.levels.back().latency_s;
  level.latency_s = below * dice.any({1.0, 2.0, 4.0});
  level.efficiency = dice.any({1.0, 0.8, 0.7});
  level.oversubscription = dice.any({1.0, 1.0, 1.0, 2.0});
  cluster.levels.push_back(level);
}

void set_levels(Dice& dice, cluster::Cluster& cluster, Leaning leaning) {
  const bool slow = leaning == Leaning::node_shards || leaning == Leaning::pitch;
  double bandwidth = dice.magnitude(50e9, 900e9);
  std::int64_t node = dice.any<std::int64_t>({1, 2, 2, 3, 4, 4, 8});
  if (leaning == Leaning::node_shards) node = dice.any<std::int64_t>({2, 3, 4, 4});
  if (leaning == Leaning::pitch) node = dice.any<std::int64_t>({3, 3, 3, 5, 4});
  add_level(dice, cluster, node, bandwidth);
  std::int64_t devices = node;
  const std::uint64_t outer = slow ? 1 + dice.below(2) : dice.below(4);
  for (std::uint64_t l = 0; l < outer; ++l) {
    const std::int64_t group =
        slow && l == 0 ? dice.any<std::int64_t>({2, 3, 4}) : dice.any<std::int64_t>({1, 2, 2, 3, 4});
    if (devices * group > kMostDevices) break;
    bandwidth = slow ? dice.magnitude(0.3e9, 10e9) : std::min(bandwidth, dice.magnitude(1e9, 200e9));
    add_level(dice, cluster, group, bandwidth);
    devices *= group;
  }
  cluster.devices = devices;
  if (cluster.levels.size() > 1 && dice.one_in(3)) {
    const std::size_t rails = 1 + dice.below(cluster.levels.size() - 1);
    cluster.levels[rails].rails = true;
    cluster.levels[rails].rail_switches = rails + 1 < cluster.levels.size() && dice.one_in(2);
  }
  if (cluster.levels.size() > 1 && devices > 2 && dice.one_in(6)) cluster.devices -= 1;  // a last unit not full
}

// Two levels whose innermost switches have different numbers of devices.
void set_uneven_levels(Dice& dice, cluster::Cluster& cluster) {
  const std::int64_t nodes = dice.any<std::int64_t>({2, 3, 4});
  add_level(dice, cluster, 1, dice.magnitude(50e9, 900e9));
  add_level(dice, cluster, nodes, dice.magnitude(1e9, 50e9));
  cluster::Level& node = cluster.levels.front();
  for (std::int64_t k = 0; k < nodes; ++k) node.counts.push_back(dice.any<std::int64_t>({1, 2, 3, 4}));
  node.group = *std::max_element(node.counts.begin(), node.counts.end());
  cluster.devices = 0;
  for (const std::int64_t count : node.counts) cluster.devices += count;
  const bool even = std::all_of(node.counts.begin(), node.counts.end(), [&](auto c) { return c == node.group; });
  if (even) node.counts.clear();
}

void set_torus(Dice& dice, cluster::Cluster& cluster) {
  const std::vector<std::vector<std::int64_t>> shapes = {{4},    {2, 2}, {3, 2}, {2, 2, 2},
                                                         {4, 2}, {3, 3}, {4, 3}, {4, 4}};
  cluster::Torus torus;
  torus.dims = dice.any(shapes);
  torus.wrap.assign(torus.dims.size(), dice.one_in(2));
  torus.link_bytes_per_s = dice.magnitude(5e9, 100e9);
  torus.latency_s = 1e-6;
  cluster.devices = torus.devices();
  cluster.torus = torus;
}

}  // namespace

cluster::Cluster random_cluster(Dice& dice, Leaning leaning) {
  cluster::Cluster cluster;
  cluster.name = "cluster";
  cluster.device =
      cluster::find_device(dice.any({"h100", "h100", "a100-40", "a100-80", "b200", "mi300x", "v100", "tpuv4"})).value();
  if (leaning == Leaning::irregular || dice.one_in(12)) {
    if (dice.one_in(2)) {
      set_torus(dice, cluster);
      return cluster;
    }
    set_uneven_levels(dice, cluster);
  } else {
    set_levels(dice, cluster, leaning);
  }
  const bool far_rails = std::any_of(cluster.levels.begin() + std::min<std::ptrdiff_t>(2, std::ssize(cluster.levels)),
                                     cluster.levels.end(), [](const cluster::Level& level) { return level.rails; });
  Dice mesh_dice = dice;  // what else is drawn of a seed stays as it is
  if (!far_rails && mesh_dice.one_in(4)) {
    cluster.levels.front().full_mesh = true;
    cluster.levels.front().bandwidth_bytes_per_s /= mesh_dice.any({1.0, 4.0, 16.0});
  }
  cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
  if (dice.one_in(8)) cluster.fabric.message_overhead_s = 5e-6;
  return cluster;
}

}  // namespace nest::test
