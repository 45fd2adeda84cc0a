#include "html/device_map.h"

#include <gmock/gmock.h>

#include <random>

#include "doc/value.h"
#include "html/link_load.h"

namespace nest::html {
namespace {

cluster::Cluster cluster_of(const std::string& yaml) {
  return cluster::read_cluster(doc::parse_yaml("test", yaml), "test");
}

const char* const kUneven = R"(
device: h100
levels:
  - {name: node, group: 8, bandwidth: 400GB/s, latency: 3us}
  - {name: rack, counts: [4, 3, 1], bandwidth: 50GB/s, latency: 8us, rails: true}
  - {name: hall, group: 3, bandwidth: 400GB/s, latency: 9us}
)";

Strategy strategy_of(std::int64_t tp, std::int64_t pp, std::int64_t dp, std::int64_t inner, std::int64_t pitch = 0) {
  Strategy strategy;
  strategy.split.tp = tp;
  strategy.pp = pp;
  strategy.dp = dp;
  strategy.dp_inner = inner;
  strategy.pitch = pitch;
  return strategy;
}

TEST(DeviceMap, RunsFollowThePlacement) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const auto inner = static_cast<std::int64_t>(1 + random() % 3);
    Strategy s =
        strategy_of(1 << random() % 3, 1 + random() % 5, inner * static_cast<std::int64_t>(1 + random() % 3), inner);
    s.split.cp = 1 + random() % 2;
    if (random() % 2 == 0) s.pitch = s.pipeline_block() + static_cast<std::int64_t>(random() % 9);
    const std::int64_t devices = s.devices_spanned() + static_cast<std::int64_t>(random() % 20);
    const groups::RankGroups ranks(s);
    std::int64_t at = 0;
    for (const DeviceRun& run : stage_runs(ranks, 0, devices)) {
      EXPECT_EQ(run.begin, at);
      for (; at < run.end; ++at) {
        const auto place = ranks.place_of(at);
        EXPECT_EQ(place ? place->stage : -1, run.stage);
      }
    }
    EXPECT_EQ(at, devices);
  }
}

TEST(DeviceMap, KeepsUnevenRacks) {
  const cluster::Cluster cluster = cluster_of(kUneven);
  ASSERT_EQ(cluster.devices, 64);
  const DeviceMap map = make_device_map(cluster);
  ASSERT_EQ(map.tiers.size(), 3U);
  EXPECT_EQ(map.overview, 0U);
  EXPECT_EQ(map.tiers[0].count(), 8U);
  EXPECT_THAT(map.tiers[1].starts, ::testing::ElementsAre(0, 32, 56));
  EXPECT_EQ(map.tiers[1].end(2), 64);
  EXPECT_EQ(map.tiers[0].within(32, 56), std::pair(std::size_t{4}, std::size_t{3}));
}

TEST(DeviceMap, TellsUnitsApart) {
  const DeviceMap map = make_device_map(*cluster::find_cluster("dgx-h100", 1024));
  // 8 stages of 8 on nodes of 8, and 24 idle devices at the end: the last unit differs.
  const UnitKinds kinds = find_kinds(groups::RankGroups(strategy_of(8, 5, 25, 1)), map.tiers[0]);
  EXPECT_EQ(kinds.kind_of.size(), 128U);
  EXPECT_EQ(kinds.examples.size(), 6U);  // five stages, and idle
  EXPECT_EQ(kinds.counts.back(), 3);
}

TEST(DeviceMap, OverviewsAreBounded) {
  for (const char* name : {"dgx-h100", "gb200-nvl72", "tpuv4-torus", "v100-cluster", "h100-spine-leaf"}) {
    for (const std::int64_t devices : {8, 64, 1024, 4096, 4608, 16384, 131072}) {
      cluster::Cluster cluster;
      try {
        cluster = *cluster::find_cluster(name, devices);
      } catch (const std::exception&) {
        continue;  // not a size that it can have
      }
      const DeviceMap map = make_device_map(cluster);
      const std::size_t units = map.tiers[map.overview].count();
      EXPECT_LE(units, map.overview == 0 ? kMostTilesInFull : kMostUnits) << name << devices;
      EXPECT_EQ(map.tiers[0].end(map.tiers[0].count() - 1), devices);
    }
  }
  // A flat network of very many nodes has no tier of a fitting size.
  const DeviceMap flat = make_device_map(cluster_of(R"(
device: h100
levels:
  - {name: node, group: 8, bandwidth: 400GB/s, latency: 3us}
  - {name: all, group: 16384, bandwidth: 50GB/s, latency: 8us}
)"));
  EXPECT_TRUE(flat.tiers[flat.overview].made_up);
  EXPECT_EQ(flat.tiers[flat.overview].count(), 256U);
}

TEST(LinkLoad, CountsRingsOnRails) {
  const cluster::Cluster cluster = cluster_of(kUneven);
  LinkLoad load(cluster);
  // Devices 0-15 are nodes 0 and 1: 14 hops inside, 2 between the nodes, through ports.
  std::vector<std::int64_t> members;
  for (std::int64_t d = 0; d < 16; ++d) members.push_back(d);
  load.ring(members, 10);
  EXPECT_THAT(load.bytes(), ::testing::ElementsAre(140, 20, 0));
  EXPECT_EQ(load.reach().text(cluster), "inside a rack");
  load.send(0, 63, 5);  // to the last rack: port and the rack's uplink
  EXPECT_THAT(load.bytes(), ::testing::ElementsAre(140, 25, 5));
  EXPECT_EQ(load.reach().text(cluster), "inside a hall");
}

TEST(LinkLoad, TokensTravelOncePerNode) {
  const cluster::Cluster cluster = cluster_of(kUneven);
  LinkLoad load(cluster);
  std::vector<std::int64_t> members;
  for (std::int64_t d = 0; d < 16; ++d) members.push_back(d);
  load.exchange(members, 16, 2);
  // Inside: each member sends 15/16 of 16 bytes. Out: 16 members, tokens of 16/2 bytes, the other node reached with
  // probability 1 - 1/4.
  EXPECT_DOUBLE_EQ(load.bytes()[0], 16 * 15);
  EXPECT_DOUBLE_EQ(load.bytes()[1], 16 * 8 * 0.75);
  EXPECT_DOUBLE_EQ(load.bytes()[2], 0);
}

TEST(LinkLoad, CountsHopsOnATorus) {
  const cluster::Cluster cluster =
      cluster_of("device: tpuv4\ntorus: {dims: [4, 4, 4], wrap: true, bandwidth: 45GB/s, latency: 1us}\n");
  LinkLoad load(cluster);
  load.send(0, 3, 7);       // one hop the other way round
  load.send(0, 4 * 2, 1);   // two in y
  load.send(0, 16 + 1, 1);  // one in x, one in z
  EXPECT_THAT(load.bytes(), ::testing::ElementsAre(8, 2, 1));
  EXPECT_EQ(link_kinds(cluster, strategy_of(1, 1, 64, 64)).at(0).links, 128);
}

TEST(LinkLoad, CountsLinksOfDevicesInUse) {
  const cluster::Cluster cluster = cluster_of(kUneven);
  const auto kinds = link_kinds(cluster, strategy_of(8, 2, 2, 1));  // 32 devices: one rack
  ASSERT_EQ(kinds.size(), 3U);
  EXPECT_EQ(kinds[0].links, 32);
  EXPECT_EQ(kinds[1].links, 32);  // a port per device
  EXPECT_EQ(kinds[2].links, 1);
  EXPECT_EQ(kinds[1].name, "out of a node");
}

}  // namespace
}  // namespace nest::html
