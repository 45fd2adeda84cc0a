// What groups that lie unevenly take at least, by hand.
#include "cost/uneven_groups.h"

#include <gtest/gtest.h>

#include "cluster/cluster.h"

namespace nest::cost {
namespace {

cluster::Cluster three_nodes() {
  cluster::Cluster cluster;
  cluster.device = cluster::find_device("h100").value();
  cluster.levels.push_back({.name = "node", .group = 8, .counts = {}, .bandwidth_bytes_per_s = 400e9, .latency_s = 0});
  cluster.levels.push_back({.name = "rack", .group = 3, .counts = {}, .bandwidth_bytes_per_s = 50e9, .latency_s = 0});
  cluster.devices = 24;
  cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
  return cluster;
}

// Four pipelines of three stages of two devices, from 0, 6, 12 and 18 on, in nodes of 8. The first stage's two groups are
// 0 6 12 18 and 1 7 13 19: as rings each sends from every node once, as two rings half of it from 0 and 6 each, and from 12
// and 18. So two rings' worth leave the first node either way, and of all nodes four at least.
TEST(UnevenGroups, PipelinesOfSixDevicesInNodesOfEight) {
  Strategy strategy;
  strategy.split.tp = 2;
  strategy.pp = 3;
  strategy.dp = 4;
  strategy.dp_inner = 1;
  const cluster::Cluster cluster = three_nodes();
  const groups::RankGroups ranks(strategy);
  const LeastSlopes least = least_slopes(cluster, ranks, groups::Weights::dense, 4);
  ASSERT_TRUE(least.known);
  EXPECT_DOUBLE_EQ(least.shard.alone, 0.75 * 2 / 50e9);
  EXPECT_DOUBLE_EQ(least.shard.uplinks[1], 0.75 * 4 / 50e9);
  EXPECT_EQ(least.replicate.alone, 0);
}

// Of tori and rails nothing is known.
TEST(UnevenGroups, WhatIsNotKnownIsNothing) {
  const groups::RankGroups ranks{Strategy{}};
  const cluster::Cluster torus = cluster::find_cluster("tpuv4-torus", 64).value();
  EXPECT_FALSE(least_slopes(torus, ranks, groups::Weights::dense, 1).known);
}

}  // namespace
}  // namespace nest::cost
