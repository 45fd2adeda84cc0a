#include "rivals/simple_network.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tiny_jobs.h"

namespace nest::rivals {
namespace {

using test::tiny_cluster;

TEST(SimpleNetwork, FlatClusterIsItself) {
  const cluster::Cluster cluster = tiny_cluster({{8, 450}}, 80);
  const std::vector<cluster::Cluster> flat = flat_networks(cluster);
  ASSERT_EQ(flat.size(), 1U);
  EXPECT_EQ(flat.front().fabric.capacity[0], 450e9);
  EXPECT_EQ(two_level_networks(cluster).size(), 1U);
}

TEST(SimpleNetwork, FlatTakesEveryLevelsLinkAndShare) {
  // A device has 400 GB/s in its node, 1/4 of 40 GB/s beyond it, and 1/8 of 16 GB/s beyond its rack.
  const cluster::Cluster cluster = tiny_cluster({{4, 400}, {2, 40}, {2, 16}}, 80);
  std::vector<double> speeds;
  for (const cluster::Cluster& flat : flat_networks(cluster)) {
    EXPECT_EQ(flat.fabric.levels, 1U);
    EXPECT_EQ(flat.devices, 16);
    speeds.push_back(flat.fabric.capacity[0]);
  }
  EXPECT_EQ(speeds, (std::vector<double>{400e9, 40e9, 10e9, 16e9, 2e9}));
}

TEST(SimpleNetwork, TwoLevelsAreThemselves) {
  const std::vector<cluster::Cluster> networks = two_level_networks(tiny_cluster({{4, 400}, {4, 40}}, 80));
  ASSERT_EQ(networks.size(), 1U);
  EXPECT_EQ(networks.front().fabric.capacity[1], 40e9);
}

TEST(SimpleNetwork, ThreeLevelsBecomeTwo) {
  // Beyond its rack of two nodes, a node has half of 16 GB/s.
  const std::vector<cluster::Cluster> networks = two_level_networks(tiny_cluster({{4, 400}, {2, 40}, {2, 16}}, 80));
  std::vector<double> speeds;
  for (const cluster::Cluster& network : networks) {
    EXPECT_EQ(network.fabric.levels, 2U);
    EXPECT_EQ(network.fabric.unit[1], 4);
    EXPECT_EQ(network.fabric.capacity[0], 400e9);
    speeds.push_back(network.fabric.capacity[1]);
  }
  EXPECT_EQ(speeds, (std::vector<double>{40e9, 8e9, 16e9}));
}

TEST(SimpleNetwork, TorusBecomesFlat) {
  const cluster::Cluster torus = cluster::find_cluster("tpuv4-torus", 64).value();
  const std::vector<cluster::Cluster> networks = two_level_networks(torus);
  ASSERT_FALSE(networks.empty());
  std::vector<double> speeds;
  for (const cluster::Cluster& network : networks) {
    EXPECT_FALSE(network.torus);
    EXPECT_EQ(network.fabric.levels, 1U);
    EXPECT_EQ(network.devices, 64);
    speeds.push_back(network.fabric.capacity[0]);
  }
  for (const cluster::LevelSummary& level : cluster::summarise(torus)) {
    EXPECT_NE(std::find(speeds.begin(), speeds.end(), level.link_bytes_per_s), speeds.end());
    EXPECT_NE(std::find(speeds.begin(), speeds.end(), level.device_bytes_per_s), speeds.end());
  }
}

TEST(SimpleNetwork, RailsStayRails) {
  // 8 devices of a node have a port each; units of 32 nodes.
  const cluster::Cluster cluster = cluster::find_cluster("dgx-h100", 512).value();
  ASSERT_TRUE(cluster.fabric.has_rails());
  const std::vector<cluster::Cluster> networks = two_level_networks(cluster);
  ASSERT_FALSE(networks.empty());
  const std::vector<cluster::LevelSummary> levels = cluster::summarise(cluster);
  std::vector<double> speeds;
  for (const cluster::Cluster& network : networks) {
    EXPECT_EQ(network.fabric.levels, 2U);
    EXPECT_TRUE(network.fabric.has_rails());
    EXPECT_EQ(network.fabric.unit[1], 8);
    speeds.push_back(cluster::summarise(network)[1].device_bytes_per_s);
  }
  EXPECT_NEAR(speeds.front(), levels[1].device_bytes_per_s, 1e-9 * speeds.front()) << "a port per device";
}

TEST(SimpleNetwork, UnevenNodesBecomeFull) {
  cluster::Cluster cluster = tiny_cluster({{4, 400}, {3, 40}}, 80);
  cluster.levels[0].counts = {4, 4, 2};
  cluster.devices = 10;
  cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
  ASSERT_FALSE(cluster.fabric.regular);
  const std::vector<cluster::Cluster> networks = two_level_networks(cluster);
  ASSERT_FALSE(networks.empty());
  for (const cluster::Cluster& network : networks) {
    EXPECT_EQ(network.devices, 10);
    EXPECT_EQ(network.fabric.unit[1], 4);
    EXPECT_EQ(network.levels[1].group, 3) << "the last node is partly filled";
  }
}

}  // namespace
}  // namespace nest::rivals
