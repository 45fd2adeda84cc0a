// Levels crossed, by hand.
#include "check/levels.h"

#include <gtest/gtest.h>

namespace nest::check {
namespace {

cluster::Cluster nodes_and_racks() {
  cluster::Cluster cluster;
  cluster.devices = 32;
  cluster.levels = {{"node", 4, {}, 100e9, 1e-6, 1, 1, false, false},
                    {"rack", 2, {}, 10e9, 5e-6, 1, 1, false, false},
                    {"hall", 4, {}, 20e9, 9e-6, 1, 1, false, false}};
  return cluster;
}

// tp 2, cp 2: four devices, one node, per stage; 4 stages; 2 replicas.
Strategy pipeline(std::int64_t inner) {
  Strategy s;
  s.split.tp = 2;
  s.split.cp = 2;
  s.pp = 4;
  s.dp = 2;
  s.dp_inner = inner;
  return s;
}

using Boundaries = std::vector<BoundaryCrossing>;
using Groups = std::vector<GroupCrossing>;

// A pipeline together: stages 0-1 and 2-3 share a rack; the replicas are 16 devices apart.
TEST(Levels, PipelinesTogether) {
  const LevelsCrossed crossed = levels_crossed(pipeline(1), nodes_and_racks());
  EXPECT_EQ(crossed.boundaries, (Boundaries{{0, 1, {1, 1}}, {1, 2, {2, 2}}, {2, 3, {1, 1}}}));
  EXPECT_EQ(crossed.groups, (Groups{{"tensor", 2, {0, 0}}, {"context", 2, {0, 0}}, {"data", 4, {2, 2}}}));
}

// Replicas together: a stage's two replicas share a rack, and every boundary leaves it.
TEST(Levels, ReplicasTogether) {
  const LevelsCrossed crossed = levels_crossed(pipeline(2), nodes_and_racks());
  EXPECT_EQ(crossed.boundaries, (Boundaries{{0, 1, {2, 2}}, {1, 2, {2, 2}}, {2, 3, {2, 2}}}));
  EXPECT_EQ(crossed.groups.back(), (GroupCrossing{"data", 4, {1, 1}}));
}

TEST(Levels, InterleavedPipelinesWrapRound) {
  Strategy s = pipeline(1);
  s.schedule = Schedule::interleaved;
  s.virtual_stages = 2;
  const LevelsCrossed crossed = levels_crossed(s, nodes_and_racks());
  EXPECT_EQ(crossed.boundaries.back(), (BoundaryCrossing{3, 0, {2, 2}}));
}

// Stages of 3 devices on nodes of 4: some boundaries stay inside for some ranks.
TEST(Levels, WhatIsNotAlignedHasARange) {
  Strategy s;
  s.split.tp = 3;
  s.pp = 2;
  s.dp = 2;
  const LevelsCrossed crossed = levels_crossed(s, nodes_and_racks());
  EXPECT_EQ(crossed.boundaries, (Boundaries{{0, 1, {0, 2}}}));              // 0-3 inside, 1-4 one rack; 7-10 leaves it
  EXPECT_EQ(crossed.groups.front(), (GroupCrossing{"tensor", 3, {0, 2}}));  // 0-2; 3-5; 6-8 leaves the rack
}

// Switches that differ: nodes of 4, 2 and 4 devices.
TEST(Levels, UnevenUnits) {
  cluster::Cluster cluster;
  cluster.devices = 10;
  cluster.levels = {{"node", 4, {4, 2, 4}, 100e9, 1e-6, 1, 1, false, false},
                    {"rack", 3, {}, 10e9, 5e-6, 1, 1, false, false}};
  Strategy s;
  s.pp = 5;
  s.split.tp = 2;
  const LevelsCrossed crossed = levels_crossed(s, cluster);
  EXPECT_EQ(crossed.boundaries, (Boundaries{{0, 1, {0, 0}}, {1, 2, {1, 1}}, {2, 3, {1, 1}}, {3, 4, {0, 0}}}));
  EXPECT_EQ(crossed.groups, (Groups{{"tensor", 2, {0, 0}}}));
}

TEST(Levels, ExpertsOverTensorRanks) {
  Strategy s;
  s.split.tp = 4;
  s.split.etp = 1;
  s.split.ep = 8;
  s.dp = s.dp_inner = 2;
  const LevelsCrossed crossed = levels_crossed(s, nodes_and_racks());
  EXPECT_EQ(crossed.groups, (Groups{{"tensor", 4, {0, 0}}, {"expert", 8, {1, 1}}, {"data", 2, {1, 1}}}));
  // Experts in halves, four sets of two halves: neighbours share an expert, and every fourth device the same half.
  s.split.etp = 2;
  s.split.ep = 2;
  EXPECT_EQ(levels_crossed(s, nodes_and_racks()).groups, (Groups{{"tensor", 4, {0, 0}},
                                                                 {"expert", 2, {0, 0}},
                                                                 {"expert tensor", 2, {0, 0}},
                                                                 {"data", 2, {1, 1}},
                                                                 {"expert data", 2, {1, 1}}}));
}

TEST(Levels, TorusCountsHops) {
  cluster::Cluster cluster;
  cluster.devices = 16;
  cluster.torus = cluster::Torus{{4, 4}, {true, true}, 10e9, 1e-6, 0};
  Strategy s;
  s.split.tp = 4;
  s.pp = 4;
  const LevelsCrossed crossed = levels_crossed(s, cluster);
  EXPECT_EQ(crossed.boundaries, (Boundaries{{0, 1, {1, 1}}, {1, 2, {1, 1}}, {2, 3, {1, 1}}}));
  EXPECT_EQ(crossing_name(cluster, {1, 3}), "1 … 3 hops");
  EXPECT_DOUBLE_EQ(least_message_s(cluster, 2, 10e9), 2e-6 + 1);
}

TEST(Levels, LeastTimeOfAMessage) {
  cluster::Cluster cluster = nodes_and_racks();
  EXPECT_DOUBLE_EQ(least_message_s(cluster, 0, 100e9), 1 + 1e-6);
  EXPECT_DOUBLE_EQ(least_message_s(cluster, 2, 10e9), 1 + 9e-6);  // the node's uplink is the narrowest
  cluster.levels[2].oversubscription = 4;
  EXPECT_DOUBLE_EQ(least_message_s(cluster, 2, 10e9), 2 + 9e-6);
  cluster.levels[0].full_mesh = true;  // whose links what leaves the node does not use
  cluster.levels[0].bandwidth_bytes_per_s = 1e9;
  EXPECT_DOUBLE_EQ(least_message_s(cluster, 0, 1e9), 1 + 1e-6);
  EXPECT_DOUBLE_EQ(least_message_s(cluster, 2, 10e9), 2 + 9e-6);
  cluster.levels[0].full_mesh = false;
  cluster.levels[2].rails = true;  // ports instead of the links below
  EXPECT_DOUBLE_EQ(least_message_s(cluster, 2, 5e9), 1 + 9e-6);
  EXPECT_EQ(crossing_name(cluster, {0, 1}), "node … rack");
}

}  // namespace
}  // namespace nest::check
