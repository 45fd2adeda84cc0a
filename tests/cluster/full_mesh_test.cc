// Nodes in which every two devices have a link of their own: values worked out by hand, and the rings that they rest on.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "cluster/cluster.h"
#include "cluster/collective.h"

namespace nest::cluster {
namespace {

constexpr double kMB = 1e6;

// Nodes of 4 with links of 50 GB/s and 2 us, ports of 25 GB/s and 8 us into a level of 4 nodes.
std::vector<Level> mesh_levels() {
  std::vector<Level> levels(2);
  levels[0] = {"node", 4, {}, 50e9, 2e-6};
  levels[0].full_mesh = true;
  levels[1] = {"cluster", 4, {}, 25e9, 8e-6};
  levels[1].rails = true;
  return levels;
}

CollectiveTime best(const Fabric& fabric, const GroupSpec& spec, Collective collective, double bytes) {
  return best_time(fabric, make_layout(fabric, spec), collective, bytes, AlgorithmSet::nccl(true));
}

double seconds(const Fabric& fabric, const GroupSpec& spec, Collective collective, double bytes, Algorithm algorithm) {
  return algorithm_time(fabric, make_layout(fabric, spec), collective, bytes, algorithm).value().seconds;
}

TEST(FullMesh, CollectivesInOneNodeByHand) {
  const Fabric fabric = make_fabric(mesh_levels(), 16);
  const GroupSpec four{0, {{1, 4}}, {}}, three{0, {{1, 3}}, {}}, pair{0, {{1, 2}}, {{2, 2}}};
  // 3 links each: 2·3 steps of 200 MB / 4 over 3 links.
  const CollectiveTime all = best(fabric, four, Collective::all_reduce, 200 * kMB);
  EXPECT_EQ(all.algorithm, Algorithm::multi_ring);
  EXPECT_NEAR(all.seconds, 6 * (2e-6 + 50 * kMB / (3 * 50e9)), 1e-12);
  // 2 links each: 2·2 steps of 120 MB / 3 over 2 links.
  EXPECT_NEAR(best(fabric, three, Collective::all_reduce, 120 * kMB).seconds, 4 * (2e-6 + 40 * kMB / (2 * 50e9)),
              1e-12);
  // A pair has one link, and the other pair another one: 2 steps of 100 MB.
  const CollectiveTime two = best(fabric, pair, Collective::all_reduce, 200 * kMB);
  EXPECT_EQ(two.algorithm, Algorithm::ring);
  EXPECT_NEAR(two.seconds, 2 * (2e-6 + 100 * kMB / 50e9), 1e-12);
  // One ring has one link of each device: 3 steps of 50 MB.
  EXPECT_NEAR(seconds(fabric, four, Collective::all_gather, 200 * kMB, Algorithm::ring), 3 * (2e-6 + 50 * kMB / 50e9),
              1e-12);
  // All-to-all: 50 MB on the link of every pair. A message: one link.
  EXPECT_NEAR(best(fabric, four, Collective::all_to_all, 200 * kMB).seconds, 2e-6 + 50 * kMB / 50e9, 1e-12);
  EXPECT_NEAR(best(fabric, pair, Collective::send_recv, 200 * kMB).seconds, 2e-6 + 200 * kMB / 50e9, 1e-12);
  // Halving and doubling: 100 MB to one, 50 MB to another, and back.
  EXPECT_NEAR(seconds(fabric, four, Collective::all_reduce, 200 * kMB, Algorithm::halving_doubling),
              2 * (2e-6 + 100 * kMB / 50e9) + 2 * (2e-6 + 50 * kMB / 50e9), 1e-12);
}

TEST(FullMesh, CollectivesAcrossNodesByHand) {
  const Fabric fabric = make_fabric(mesh_levels(), 16);
  const GroupSpec eight{0, {{1, 8}}, {}};
  // Four rings of 80 MB / 4 over 8 members: 14 steps of 2.5 MB, one on every port and one on the link of every pair.
  const CollectiveTime all = best(fabric, eight, Collective::all_reduce, 80 * kMB);
  EXPECT_EQ(all.algorithm, Algorithm::multi_ring);
  EXPECT_NEAR(all.seconds, 14 * (8e-6 + 2.5 * kMB / 25e9), 1e-12);
  EXPECT_EQ(all.bottleneck, 1U);
  // The same with links of 5 GB/s inside: they decide.
  std::vector<Level> slow = mesh_levels();
  slow[0].bandwidth_bytes_per_s = 5e9;
  const Fabric slower = make_fabric(slow, 16);
  EXPECT_NEAR(best(slower, eight, Collective::all_reduce, 80 * kMB).seconds, 14 * (2e-6 + 2.5 * kMB / 5e9), 1e-12);
  // One device of each node: nothing stays inside, whatever the links there are.
  const GroupSpec across{0, {{4, 4}}, {{1, 4}}};
  EXPECT_NEAR(best(slower, across, Collective::all_reduce, 80 * kMB).seconds, 6 * (8e-6 + 20 * kMB / 25e9), 1e-12);
  // Inside, then across: 3 steps of 20 MB over 3 links, one of 10 MB through every port, and back.
  const std::int64_t dims[] = {4, 2};
  EXPECT_NEAR(hierarchical_time(slower, make_layout(slower, eight), Collective::all_reduce, 80 * kMB, dims)->seconds,
              6 * (2e-6 + 20 * kMB / (3 * 5e9)) + 2 * (8e-6 + 10 * kMB / 25e9), 1e-12);
  // All-to-all of 8: 10 MB for each, four of them through the port, or one on each link inside.
  EXPECT_NEAR(best(fabric, eight, Collective::all_to_all, 80 * kMB).seconds, 8e-6 + 40 * kMB / 25e9, 1e-12);
  EXPECT_NEAR(best(slower, eight, Collective::all_to_all, 80 * kMB).seconds, 2e-6 + 10 * kMB / 5e9, 1e-12);
}

// Without rails what leaves a node uses its uplink, and none of the links inside.
TEST(FullMesh, UplinkOfANode) {
  std::vector<Level> levels = mesh_levels();
  levels[0].bandwidth_bytes_per_s = 1e9;
  levels[1].rails = false;
  const Fabric fabric = make_fabric(levels, 16);
  const GroupSpec across{0, {{4, 2}}, {{1, 4}}};
  EXPECT_NEAR(seconds(fabric, across, Collective::send_recv, 10 * kMB, Algorithm::direct), 8e-6 + 4 * 10 * kMB / 25e9,
              1e-12);
}

// A node of 8 used as one group costs what one link of seven times the bandwidth did; a part of it costs more.
TEST(FullMesh, WholeNodesAreAsFastAsBehindASwitch) {
  const Cluster mesh = find_cluster("mi300x-cluster", 64).value();
  std::vector<Level> levels = mesh.levels;
  levels[0].full_mesh = false;
  levels[0].bandwidth_bytes_per_s *= 7;
  const Fabric behind_switch = make_fabric(levels, 64);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth_bytes_per_s, mesh.device.link_bytes_per_s);
  for (const std::int64_t members : {2, 4, 8, 16, 64}) {
    const GroupSpec spec{0, {{1, members}}, {{members, 64 / members}}};
    for (const Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::all_to_all}) {
      const double with = best(mesh.fabric, spec, collective, 100 * kMB).seconds;
      const double without = best(behind_switch, spec, collective, 100 * kMB).seconds;
      if (members >= 8) {
        EXPECT_NEAR(with, without, 1e-12 * without) << members << " " << to_string(collective);
      } else {
        EXPECT_GT(with, 1.8 * without) << members << " " << to_string(collective);
      }
    }
  }
}

// What multi-ring rests on: all rings through n devices together load every link alike, and so do all paths that rings
// leave in a node. Counted one by one.
TEST(FullMesh, AllRingsTogetherLoadEveryLinkAlike) {
  for (std::size_t n = 3; n <= 6; ++n) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), 0U);
    std::map<std::pair<std::size_t, std::size_t>, int> by_rings, by_paths;
    do {
      for (std::size_t i = 0; i < n; ++i) {
        if (order[0] == 0) ++by_rings[{order[i], order[(i + 1) % n]}];
        if (i + 1 < n) ++by_paths[{order[i], order[i + 1]}];
      }
    } while (std::next_permutation(order.begin(), order.end()));
    ASSERT_EQ(by_rings.size(), n * (n - 1));
    ASSERT_EQ(by_paths.size(), n * (n - 1));
    for (const auto& [pair, times] : by_rings) EXPECT_EQ(times, by_rings.begin()->second) << n;
    for (const auto& [pair, times] : by_paths) EXPECT_EQ(times, by_paths.begin()->second) << n;
  }
}

Cluster read(const std::string& levels) {
  return read_cluster(doc::parse_yaml("site.yaml", "device: mi300x\nlevels:\n" + levels), "site");
}

std::string error_of(const std::string& levels) {
  try {
    refuse_fast_links(read(levels));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(FullMesh, IsReadAndResized) {
  const std::string node =
      "  - {name: node, group: 8, full_mesh: true, bandwidth: 64GB/s, latency: 3us, efficiency: 0.5}\n";
  const Cluster cluster = read(node + "  - {name: pod, group: 4, bandwidth: 50GB/s, latency: 8us, rails: true}\n");
  refuse_fast_links(cluster);
  EXPECT_EQ(summarise(cluster)[0].links_per_device, 7);
  EXPECT_DOUBLE_EQ(summarise(cluster)[0].link_bytes_per_s, 32e9);
  EXPECT_DOUBLE_EQ(summarise(cluster)[0].device_bytes_per_s, 7 * 32e9);
  const Cluster half = resized(cluster, 4);
  EXPECT_TRUE(half.fabric.full_mesh);
  EXPECT_DOUBLE_EQ(summarise(half)[0].device_bytes_per_s, 3 * 32e9);
  EXPECT_DOUBLE_EQ(summarise(resized(cluster, 1))[0].device_bytes_per_s, 32e9);

  EXPECT_THAT(error_of("  - {name: node, group: 8, full_mesh: true, bandwidth: 448GB/s}\n"),
              testing::HasSubstr("7 links of 448 GB/s are more than the 448 GB/s that all links of mi300x carry in one "
                                 "direction; in a full mesh it is the bandwidth of one link, at most 64GB/s here"));
  EXPECT_THAT(error_of(node + "  - {name: pod, group: 4, bandwidth: 50GB/s, full_mesh: true}\n"),
              testing::HasSubstr("levels[1].full_mesh"));
  EXPECT_THAT(error_of(node + "  - {group: 4, bandwidth: 50GB/s}\n  - {group: 2, bandwidth: 50GB/s, rails: true}\n"),
              testing::HasSubstr("levels[2].rails"));
}

}  // namespace
}  // namespace nest::cluster
