// No placement's lines are below what least_sync() says of them.
#include "search/traffic_floor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/checked.h"
#include "cost/group_time.h"
#include "test_support/scale.h"

namespace nest::search {
namespace {

constexpr double kSlack = 1 + 1e-9;

cluster::Cluster random_cluster(std::mt19937& random) {
  cluster::Cluster cluster;
  cluster.device = cluster::find_device("h100").value();
  const auto pick = [&](std::initializer_list<std::int64_t> of) { return of.begin()[random() % of.size()]; };
  const bool rails = random() % 2 == 0;
  const std::int64_t node = pick({2, 4, 6, 8}), nodes = pick({1, 2, 3, 4, 8}), racks = pick({1, 2, 4});
  cluster.levels.push_back({.name = "node",
                            .group = node,
                            .counts = {},
                            .bandwidth_bytes_per_s = 300e9,
                            .latency_s = 3e-6,
                            .efficiency = 0.8});
  cluster.levels.push_back({.name = "rack",
                            .group = nodes,
                            .counts = {},
                            .bandwidth_bytes_per_s = rails ? 50e9 : 25e9,
                            .latency_s = 8e-6,
                            .efficiency = 0.7,
                            .rails = rails});
  cluster.levels.push_back({.name = "pod",
                            .group = racks,
                            .counts = {},
                            .bandwidth_bytes_per_s = 100e9,
                            .latency_s = 12e-6,
                            .oversubscription = 2});
  if (random() % 3 == 0) {
    cluster.levels.front().full_mesh = true;
    cluster.levels.front().bandwidth_bytes_per_s = static_cast<double>(pick({10, 60, 300})) * 1e9;
  }
  cluster.devices = node * nodes * racks;
  cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
  return cluster;
}

// Whether the first `degree` replicas of rank 0 sit in one node.
bool inside_a_node(const cluster::Cluster& cluster, const Strategy& strategy, std::int64_t degree) {
  const std::int64_t per_replica = strategy.split.cp;
  for (std::int64_t k = 0; k < degree; ++k) {
    const std::int64_t device = device_of(strategy, k / per_replica, 0, k % per_replica * strategy.split.tp);
    if (device + strategy.split.tp > cluster.fabric.unit[1]) return false;
  }
  return true;
}

TEST(TrafficFloor, NoPlacementIsCheaper) {
  std::mt19937 random(5);
  std::uint32_t compared = 0, positive = 0;
  const std::uint32_t rounds = test::scaled(120'000, 12'000);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const cluster::Cluster cluster = random_cluster(random);
    const auto upto = [&](std::int64_t most) {
      return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
    };
    Strategy strategy;
    strategy.split = {upto(8), false, upto(2), upto(4), upto(6) - 1};
    strategy.pp = upto(6);
    strategy.dp_inner = strategy.split.team() * upto(6);
    strategy.dp = strategy.dp_inner * upto(6);
    if (random() % 3 == 0) strategy.pitch = round_up(strategy.pipeline_block(), cluster.fabric.unit[1]);
    if (strategy.devices_spanned() > cluster.devices) continue;
    ++compared;
    const double call = std::pow(10.0, static_cast<double>(upto(9)) + 3);
    const auto expect_less = [&](const cost::CostLine& least, const cost::CostLine& line) {
      EXPECT_LE(least.s_per_byte + least.latency_s / call, line.s_per_byte * kSlack);  // in calls
      EXPECT_LE(least.latency_s, line.latency_s * kSlack);
    };
    const cost::ShardLines all = cost::shard_lines(cluster, cost::shard_groups(cluster, strategy, 0), {call, call});
    for (const Placed placed : {Placed::anywhere, Placed::as_given}) {
      const SyncPrices least = least_sync(cluster, strategy, kAnyDegree, placed);
      positive += least.lines[0][0].dense_shard.s_per_byte > 0;
      expect_less(least.lines[0][0].dense_shard, all.dense_shard);
      expect_less(least.lines[0][0].expert_shard, all.expert_shard);
      EXPECT_FALSE(least_sync(cluster, strategy, std::nullopt, placed).has_inner);
      for (std::int64_t degree = 2; degree < groups::dense_replicas(strategy); ++degree) {
        if (groups::dense_replicas(strategy) % degree != 0 || !groups::can_shard(strategy, degree)) continue;
        if (!inside_a_node(cluster, strategy, degree)) continue;
        const cost::ShardLines inner =
            cost::shard_lines(cluster, cost::shard_groups(cluster, strategy, degree), {call, call});
        const SyncPrices exactly = least_sync(cluster, strategy, degree, placed);
        for (const SyncPrices* prices : {&least, &exactly}) {
          const cost::ShardLines& lines = prices->lines[1][0];
          expect_less(lines.dense_shard, inner.dense_shard);
          EXPECT_LE(lines.dense_replicate.s_per_byte, inner.dense_replicate.s_per_byte * kSlack);
          EXPECT_LE(lines.dense_replicate.latency_s, inner.dense_replicate.latency_s * kSlack);
          expect_less(lines.expert_shard, inner.expert_shard);
          EXPECT_LE(lines.expert_replicate.s_per_byte, inner.expert_replicate.s_per_byte * kSlack);
          EXPECT_GE(lines.dense_degree, inner.dense_degree);
          EXPECT_GE(lines.expert_degree, inner.expert_degree);
        }
        EXPECT_GE(exactly.lines[1][0].dense_shard.s_per_byte, least.lines[1][0].dense_shard.s_per_byte);
      }
      if (testing::Test::HasFailure()) {
        FAIL() << "tp " << strategy.split.tp << " cp " << strategy.split.cp << " ep " << strategy.split.ep << " etp "
               << strategy.split.expert_tp() << " pp " << strategy.pp << " dp " << strategy.dp << " inner "
               << strategy.dp_inner << " pitch " << strategy.pitch << " node " << cluster.fabric.unit[1] << " rack "
               << cluster.fabric.unit[2] << " of " << cluster.devices << " rails " << cluster.fabric.has_rails()
               << " placed " << static_cast<int>(placed);
      }
    }
  }
  EXPECT_GT(compared, rounds / 20);
  EXPECT_GT(positive, rounds / 60);
}

}  // namespace
}  // namespace nest::search
