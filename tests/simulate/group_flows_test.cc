#include "simulate/group_flows.h"

#include <gtest/gtest.h>

#include <map>

#include "simulate/network.h"
#include "test_cluster.h"

namespace nest::simulate {
namespace {

// Bytes on the busiest link of every transfer, over its capacity, summed: the time without latencies, for a buffer of
// one byte.
double bandwidth_s(const cluster::Cluster& cluster, const GroupExchange& exchange) {
  double total = 0;
  for (const auto& transfer : exchange.transfers) {
    Network network(cluster);
    std::map<std::int32_t, double> bytes;
    for (const GroupFlow& flow : transfer) {
      for (const std::int32_t link : network.path(flow.from, flow.to, flow.falling).links) {
        bytes[link] += static_cast<double>(flow.count) * flow.share;
      }
    }
    double slowest = 0;
    for (const auto& [link, carried] : bytes) {
      slowest = std::max(slowest, carried / network.links()[static_cast<std::size_t>(link)].bytes_per_s);
    }
    total += slowest;
  }
  return total;
}

GroupExchange exchange_of(const cluster::Cluster& cluster, const GroupSpec& groups, Stride stages) {
  return group_exchange(cluster, groups, group_algorithm(cluster, groups, stages, 256e6));
}

// Two nodes of 4 with one uplink of 10: a ring of 8 crosses it once: 7/8 bytes at 10 bytes/s.
TEST(GroupFlows, RingThroughTheNodes) {
  const cluster::Cluster cluster = test::cluster_of(
      "levels:\n"
      "  - {name: node, group: 4, bandwidth: 100B/s, latency: 1us}\n"
      "  - {name: rack, group: 2, bandwidth: 10B/s, latency: 5us}\n");
  const GroupExchange exchange = exchange_of(cluster, {0, {{1, 8}}, {}}, {8, 1});
  EXPECT_EQ(exchange.algorithm, cluster::Algorithm::ring);
  ASSERT_EQ(exchange.transfers.size(), 1U);
  EXPECT_EQ(exchange.transfers[0].size(), 8U);
  EXPECT_EQ(exchange.transfers[0][3].steps, 7);
  EXPECT_DOUBLE_EQ(bandwidth_s(cluster, exchange), 7.0 / 8 / 10);
}

// The same with a port of 10 per device: four rings of a quarter each, (7/8)/4 bytes through every port, three quarters
// of 7/8 through the links inside.
TEST(GroupFlows, RingsSideBySideUseAllPorts) {
  const cluster::Cluster cluster = test::cluster_of(
      "levels:\n"
      "  - {name: node, group: 4, bandwidth: 100B/s, latency: 1us}\n"
      "  - {name: pod, group: 2, bandwidth: 10B/s, latency: 5us, rails: true}\n");
  const GroupExchange exchange = exchange_of(cluster, {0, {{1, 8}}, {}}, {8, 1});
  EXPECT_EQ(exchange.algorithm, cluster::Algorithm::multi_ring);
  EXPECT_DOUBLE_EQ(bandwidth_s(cluster, exchange), 7.0 / 8 / 4 / 10);
}

// Four groups of two across the nodes meet on one uplink.
TEST(GroupFlows, SiblingsShare) {
  const cluster::Cluster cluster = test::cluster_of(
      "levels:\n"
      "  - {name: node, group: 4, bandwidth: 100B/s, latency: 1us}\n"
      "  - {name: rack, group: 2, bandwidth: 10B/s, latency: 5us}\n");
  const GroupExchange exchange = exchange_of(cluster, {0, {{4, 2}}, {{1, 4}}}, {8, 1});
  EXPECT_DOUBLE_EQ(bandwidth_s(cluster, exchange), 4 * 0.5 / 10);
}

// In full meshes too the flows take as long as the formula says, inside nodes and across them, with ports and uplinks.
TEST(GroupFlows, FullMeshAgreesWithItsFormula) {
  const std::vector<GroupSpec> specs = {{0, {{1, 4}}, {}},       {0, {{1, 2}}, {{2, 8}}}, {0, {{1, 3}}, {}},
                                        {0, {{1, 8}}, {}},       {0, {{1, 16}}, {}},      {0, {{4, 4}}, {{1, 4}}},
                                        {0, {{2, 8}}, {{1, 2}}}, {0, {{1, 4}}, {{4, 4}}}};
  for (const char* rails : {"", ", rails: true"}) {
    for (const char* link : {"100B/s", "10B/s", "1B/s"}) {
      const cluster::Cluster cluster = test::cluster_of(
          "levels:\n  - {name: node, group: 4, full_mesh: true, latency: 1us, bandwidth: " + std::string(link) +
          "}\n  - {name: pod, group: 4, bandwidth: 10B/s, latency: 5us" + rails + "}\n");
      for (const GroupSpec& spec : specs) {
        const GroupExchange exchange = exchange_of(cluster, spec, {16, 1});
        ASSERT_EQ(exchange.transfers.size(), 1U);
        const auto time = cluster::algorithm_time(cluster.fabric, cluster::place_group(cluster, spec),
                                                  cluster::Collective::reduce_scatter, 256e6, exchange.algorithm);
        EXPECT_NEAR(bandwidth_s(cluster, exchange), time->bandwidth_s / 256e6, 1e-9 * time->bandwidth_s / 256e6)
            << spec.size() << " of " << link << rails;
      }
    }
  }
}

// On a torus the flows must take as long as the formula says for the same groups alone.
TEST(GroupFlows, TorusAgreesWithItsFormula) {
  const cluster::Cluster cluster =
      test::cluster_of("torus: {dims: [4, 4, 4], wrap: true, bandwidth: 10B/s, latency: 1us}\n");
  const std::vector<GroupSpec> specs = {{0, {{1, 4}}, {}},        {0, {{1, 16}}, {}},      {0, {{1, 64}}, {}},
                                        {0, {{4, 16}}, {{1, 4}}}, {0, {{2, 2}}, {{1, 2}}}, {0, {{8, 8}}, {{1, 8}}},
                                        {0, {{1, 2}}, {}},        {0, {{1, 8}}, {{8, 8}}}};
  for (const GroupSpec& spec : specs) {
    const GroupExchange exchange = exchange_of(cluster, spec, {64, 1});
    ASSERT_FALSE(exchange.transfers.empty());
    const cluster::CollectiveTime time = cluster::collective_time(cluster, cluster::place_group(cluster, spec),
                                                                  cluster::Collective::reduce_scatter, 256e6);
    EXPECT_NEAR(bandwidth_s(cluster, exchange) * 256e6, time.bandwidth_s, 1e-6 * time.bandwidth_s)
        << spec.size() << " members, " << to_string(time.algorithm);
  }
}

TEST(GroupFlows, OtherAlgorithmsAreNotPlayed) {
  const cluster::Cluster cluster = test::cluster_of(
      "algorithms: [halving-doubling]\n"
      "levels:\n"
      "  - {name: node, group: 4, bandwidth: 100B/s, latency: 1us}\n"
      "  - {name: rack, group: 2, bandwidth: 10B/s, latency: 5us}\n");
  EXPECT_TRUE(exchange_of(cluster, {0, {{1, 8}}, {}}, {8, 1}).transfers.empty());
}

}  // namespace
}  // namespace nest::simulate
