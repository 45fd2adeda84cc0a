// No pipeline waits less for its messages than MessageFloor says.
#include "search/message_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "base/checked.h"
#include "plan/plan.h"
#include "test_support/scale.h"

namespace nest::search {
namespace {

constexpr double kCutBytes = 40e6, kWrapBytes = 30e6;

cluster::Cluster some_cluster(std::mt19937& random) {
  cluster::Cluster cluster;
  cluster.device = cluster::find_device("h100").value();
  const auto pick = [&](std::initializer_list<std::int64_t> of) { return of.begin()[random() % of.size()]; };
  const bool rails = random() % 2 == 0;
  const std::int64_t node = pick({2, 3, 4, 8}), nodes = pick({2, 3, 4, 8}), racks = pick({1, 2, 4});
  cluster.levels.push_back({.name = "node",
                            .group = node,
                            .counts = {},
                            .bandwidth_bytes_per_s = rails ? 30e9 : 300e9,
                            .latency_s = 3e-6,
                            .efficiency = 0.8});
  cluster.levels.push_back({.name = "rack",
                            .group = nodes,
                            .counts = {},
                            .bandwidth_bytes_per_s = 50e9,
                            .latency_s = 8e-6,
                            .efficiency = 0.7,
                            .rails = rails});
  cluster.levels.push_back({.name = "pod",
                            .group = racks,
                            .counts = {},
                            .bandwidth_bytes_per_s = 100e9,
                            .latency_s = 12e-6,
                            .oversubscription = 2});
  cluster.levels.front().full_mesh = random() % 3 == 0;
  cluster.devices = node * nodes * racks;
  cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
  return cluster;
}

// By the lines of this very placement.
LeastWaiting waiting_of(const cluster::Cluster& cluster, const Strategy& strategy) {
  const auto v = static_cast<double>(strategy.virtual_stages);
  LeastWaiting waiting;
  waiting.each_s = std::numeric_limits<double>::infinity();
  for (std::int64_t s = 0; s + 1 < strategy.pp; ++s) {
    const double hop = v * cost::message_line(cluster, strategy, s, s + 1).at(kCutBytes);
    waiting.each_s = std::min(waiting.each_s, hop);
    waiting.sum_s += 2 * hop;
  }
  waiting.sum_s += 2 * (v - 1) * cost::message_line(cluster, strategy, strategy.pp - 1, 0).at(kWrapBytes);
  return waiting;
}

TEST(MessageFloor, NoPlacementWaitsLess) {
  std::mt19937 random(7);
  std::uint32_t compared = 0, exact = 0, leaving = 0;
  const std::uint32_t rounds = test::scaled(80'000, 8'000);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const cluster::Cluster cluster = some_cluster(random);
    const auto upto = [&](std::int64_t most) {
      return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
    };
    Strategy strategy;
    strategy.split.tp = upto(4);
    strategy.split.cp = upto(2);
    strategy.pp = 1 + upto(6);
    strategy.virtual_stages = upto(3);
    strategy.dp_inner = upto(3);
    strategy.dp = strategy.dp_inner * upto(4);
    if (random() % 2 == 0) strategy.pitch = round_up(strategy.pipeline_block(), cluster.fabric.unit[1]);
    if (strategy.devices_spanned() > cluster.devices) continue;
    ++compared;
    const MessageFloor floor(cluster);
    const std::int64_t devices = strategy.split.tp * strategy.split.cp;
    const LeastWaiting least = floor.waiting(strategy.pp, strategy.virtual_stages, strategy.virtual_stages - 1, devices,
                                             kCutBytes, kWrapBytes);
    const LeastWaiting waiting = waiting_of(cluster, strategy);
    ASSERT_LE(least.each_s, waiting.each_s * (1 + 1e-9));
    ASSERT_LE(least.sum_s, waiting.sum_s * (1 + 1e-9))
        << "tp " << strategy.split.tp << " cp " << strategy.split.cp << " pp " << strategy.pp << " inner "
        << strategy.dp_inner << " of " << strategy.dp << " pitch " << strategy.pitch << " node "
        << cluster.fabric.unit[1] << " rails " << cluster.fabric.has_rails();
    exact += least.sum_s > waiting.sum_s * (1 - 1e-9);
    leaving += strategy.pp * devices > cluster.fabric.unit[1];
  }
  EXPECT_GT(compared, rounds / 14);
  EXPECT_GT(exact, rounds / 400);
  EXPECT_GT(leaving, rounds / 40);
}

// Two nodes of 8, stages of 4 devices, two of them in each node: one of the three messages leaves, and the way back.
TEST(MessageFloor, FourStagesOnTwoNodes) {
  cluster::Cluster cluster;
  cluster.device = cluster::find_device("h100").value();
  cluster.levels.push_back(
      {.name = "node", .group = 8, .counts = {}, .bandwidth_bytes_per_s = 100e9, .latency_s = 3e-6});
  cluster.levels.push_back(
      {.name = "rack", .group = 2, .counts = {}, .bandwidth_bytes_per_s = 50e9, .latency_s = 8e-6});
  cluster.devices = 16;
  cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
  const LeastWaiting least = MessageFloor(cluster).waiting(4, 2, 1, 4, 1e6, 2e6);
  const double near = 3e-6 + 1e6 / 100e9, far = 8e-6 + 1e6 / 50e9, back = 8e-6 + 2e6 / 50e9;
  EXPECT_NEAR(least.each_s, 2 * near, 1e-15);
  EXPECT_NEAR(least.sum_s, 2 * 2 * (2 * near + far) + 2 * back, 1e-15);
  // Stages of a whole node: all messages leave, eight at once.
  const LeastWaiting whole = MessageFloor(cluster).waiting(2, 1, 0, 8, 1e6, 2e6);
  EXPECT_NEAR(whole.each_s, 8e-6 + 8 * 1e6 / 50e9, 1e-15);
}

}  // namespace
}  // namespace nest::search
