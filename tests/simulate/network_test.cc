#include "simulate/network.h"

#include <gmock/gmock.h>

#include "test_cluster.h"

namespace nest::simulate {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names(Network& network, const NetworkPath& path) {
  std::vector<std::string> list;
  for (const std::int32_t link : path.links) list.push_back(network.links()[static_cast<std::size_t>(link)].name);
  return list;
}

TEST(Network, ClimbsToTheCommonSwitch) {
  const cluster::Cluster cluster = test::cluster_of(
      "levels:\n"
      "  - {name: node, group: 4, bandwidth: 100GB/s, latency: 1us}\n"
      "  - {name: rack, group: 2, bandwidth: 10GB/s, latency: 5us}\n"
      "  - {name: hall, group: 2, bandwidth: 20GB/s, latency: 9us, oversubscription: 2}\n");
  Network network(cluster);
  const NetworkPath inside = network.path(0, 3);
  EXPECT_THAT(names(network, inside), ElementsAre("uplink of device 0", "downlink of device 3"));
  EXPECT_DOUBLE_EQ(inside.latency_s, 1e-6);
  const NetworkPath across = network.path(5, 9);
  EXPECT_THAT(names(network, across), ElementsAre("uplink of device 5", "uplink of node 1", "uplink of rack 0",
                                                  "downlink of rack 1", "downlink of node 2", "downlink of device 9"));
  EXPECT_DOUBLE_EQ(across.latency_s, 9e-6);
  EXPECT_DOUBLE_EQ(network.links()[static_cast<std::size_t>(across.links[2])].bytes_per_s, 10e9);
  // The same links are the same links.
  EXPECT_EQ(network.path(5, 8).links[1], across.links[1]);
}

TEST(Network, RailsGiveEveryDeviceAPort) {
  const cluster::Cluster cluster = test::cluster_of(
      "levels:\n"
      "  - {name: node, group: 4, bandwidth: 100GB/s, latency: 1us}\n"
      "  - {name: pod, group: 2, bandwidth: 10GB/s, latency: 5us, rails: true}\n"
      "  - {name: hall, group: 2, bandwidth: 80GB/s, latency: 9us}\n");
  Network network(cluster);
  EXPECT_THAT(names(network, network.path(1, 2)), ElementsAre("uplink of device 1", "downlink of device 2"));
  EXPECT_THAT(names(network, network.path(1, 6)),
              ElementsAre("port of device 1, sending", "port of device 6, receiving"));
  EXPECT_THAT(names(network, network.path(1, 9)), ElementsAre("port of device 1, sending", "uplink of pod 0",
                                                              "downlink of pod 1", "port of device 9, receiving"));
}

// Every pair has a link of its own, one for each direction; what leaves the node uses none of them.
TEST(Network, FullMesh) {
  const std::string node = "levels:\n  - {name: node, group: 4, full_mesh: true, bandwidth: 100GB/s, latency: 1us}\n";
  const cluster::Cluster ports =
      test::cluster_of(node + "  - {name: pod, group: 2, bandwidth: 10GB/s, latency: 5us, rails: true}\n");
  Network network(ports);
  EXPECT_THAT(names(network, network.path(5, 6)), ElementsAre("link of device 5 to device 6"));
  EXPECT_THAT(names(network, network.path(6, 5)), ElementsAre("link of device 6 to device 5"));
  EXPECT_EQ(network.path(5, 6).links, network.path(5, 6).links);
  EXPECT_DOUBLE_EQ(network.links()[0].bytes_per_s, 100e9);
  EXPECT_THAT(names(network, network.path(1, 6)),
              ElementsAre("port of device 1, sending", "port of device 6, receiving"));
  const cluster::Cluster uplinks =
      test::cluster_of(node + "  - {name: pod, group: 2, bandwidth: 10GB/s, latency: 5us}\n");
  Network shared(uplinks);
  EXPECT_THAT(names(shared, shared.path(1, 6)), ElementsAre("uplink of node 0", "downlink of node 1"));
}

TEST(Network, RailSwitchesMakeLaneChangesClimb) {
  const cluster::Cluster cluster = test::cluster_of(
      "levels:\n"
      "  - {name: node, group: 4, bandwidth: 100GB/s, latency: 1us}\n"
      "  - {name: pod, group: 2, bandwidth: 10GB/s, latency: 5us, rails: true, rail_switches: true}\n"
      "  - {name: hall, group: 2, bandwidth: 80GB/s, latency: 9us}\n");
  Network network(cluster);
  EXPECT_EQ(network.path(1, 5).links.size(), 2U);  // same position
  const NetworkPath change = network.path(1, 6);   // another one: through the level above
  EXPECT_EQ(change.links.size(), 4U);
  EXPECT_DOUBLE_EQ(change.latency_s, 9e-6);
  EXPECT_NE(network.path(1, 6).links[1], network.path(2, 5).links[1]);  // each rail switch has its own uplink
}

TEST(Network, TorusTakesTheShortWayRound) {
  const cluster::Cluster cluster =
      test::cluster_of("torus: {dims: [4, 4], wrap: true, bandwidth: 10GB/s, latency: 1us}\n");
  Network network(cluster);
  EXPECT_THAT(names(network, network.path(0, 3)), ElementsAre("link x- of device 0"));
  EXPECT_THAT(names(network, network.path(0, 6)),
              ElementsAre("link x+ of device 0", "link x+ of device 1", "link y+ of device 2"));
  EXPECT_THAT(names(network, network.path(0, 2, true)), ElementsAre("link x- of device 0", "link x- of device 3"));
  EXPECT_DOUBLE_EQ(network.path(0, 6).latency_s, 3e-6);
}

}  // namespace
}  // namespace nest::simulate
