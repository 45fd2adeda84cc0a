// Collective times on hierarchical fabrics: values worked out by hand, and what must hold for any fabric and group.
#include "cluster/collective.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "cluster/cluster.h"

namespace nest::cluster {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

std::vector<Level> tree_levels() {
  std::vector<Level> levels(3);
  levels[0] = {"node", 8, {}, 900e9, 1e-6};
  levels[1] = {"rack", 4, {}, 100e9, 5e-6};
  levels[2] = {"core", 8, {}, 400e9, 10e-6};
  return levels;
}

std::vector<Level> rail_levels() {
  std::vector<Level> levels = tree_levels();
  levels[1].bandwidth_bytes_per_s = 50e9;
  levels[1].rails = true;
  levels[2].bandwidth_bytes_per_s = 1600e9;
  return levels;
}

double seconds(const Fabric& fabric, const GroupSpec& spec, Collective collective, double bytes, Algorithm algorithm) {
  return algorithm_time(fabric, make_layout(fabric, spec), collective, bytes, algorithm).value().seconds;
}

TEST(Collective, RingInOneNodeByHand) {
  const Fabric fabric = make_fabric(tree_levels(), 256);
  // 2·7 steps of 1 us + (8 MiB / 8) / 900 GB/s
  EXPECT_NEAR(seconds(fabric, {0, {{1, 8}}, {}}, Collective::all_reduce, 8 * kMiB, Algorithm::ring),
              14 * (1e-6 + kMiB / 900e9), 1e-15);
  EXPECT_NEAR(seconds(fabric, {0, {{1, 8}}, {}}, Collective::all_gather, 8 * kMiB, Algorithm::ring),
              7 * (1e-6 + kMiB / 900e9), 1e-15);
}

TEST(Collective, ConcurrentGroupsShareTheNodesUplink) {
  const Fabric fabric = make_fabric(tree_levels(), 256);
  // One device of each of 4 nodes: 2·3 steps of 5 us + (4 MiB / 4) / (100 GB/s / 8 groups)
  EXPECT_NEAR(seconds(fabric, {0, {{8, 4}}, {{1, 8}}}, Collective::all_reduce, 4 * kMiB, Algorithm::ring),
              6 * (5e-6 + kMiB * 8 / 100e9), 1e-12);
  EXPECT_NEAR(seconds(fabric, {0, {{8, 4}}, {}}, Collective::all_reduce, 4 * kMiB, Algorithm::ring),
              6 * (5e-6 + kMiB / 100e9), 1e-12);
}

TEST(Collective, RailsDoNotShare) {
  const Fabric fabric = make_fabric(rail_levels(), 256);
  const double alone = seconds(fabric, {0, {{8, 4}}, {}}, Collective::all_reduce, 4 * kMiB, Algorithm::ring);
  EXPECT_NEAR(alone, 6 * (5e-6 + kMiB / 50e9), 1e-12);
  EXPECT_EQ(alone, seconds(fabric, {0, {{8, 4}}, {{1, 8}}}, Collective::all_reduce, 4 * kMiB, Algorithm::ring));
}

TEST(Collective, RotatedRingsUseAllRails) {
  const Fabric fabric = make_fabric(rail_levels(), 256);
  const GroupSpec two_nodes{0, {{1, 16}}, {}};
  const double m = 256 * kMiB;
  // One ring leaves each node by one port; eight rings by all eight, each with an eighth of the data. Then 7 flows of
  // m/128 per step inside the node take 7/900 against 1/50 outside.
  EXPECT_NEAR(seconds(fabric, two_nodes, Collective::all_reduce, m, Algorithm::ring), 30 * (5e-6 + m / 16 / 50e9),
              1e-9);
  EXPECT_NEAR(seconds(fabric, two_nodes, Collective::all_reduce, m, Algorithm::multi_ring),
              30 * (5e-6 + m / 128 / 50e9), 1e-9);
}

TEST(Collective, HierarchyByHand) {
  const Fabric fabric = make_fabric(rail_levels(), 256);
  const double m = 16 * kMiB;
  // 8 in the node, then 4 nodes with an eighth of the data on each rail.
  EXPECT_NEAR(seconds(fabric, {0, {{1, 32}}, {}}, Collective::all_reduce, m, Algorithm::hierarchical),
              14 * (1e-6 + m / 8 / 900e9) + 6 * (5e-6 + m / 32 / 50e9), 1e-12);
}

TEST(Collective, HalvingDoublingByHand) {
  const Fabric fabric = make_fabric(tree_levels(), 256);
  const double m = 16 * kMiB;
  // Two nodes of 8: distances 1, 2, 4 inside; at distance 8 all 8 members leave the node with m/16 each.
  EXPECT_NEAR(seconds(fabric, {0, {{1, 16}}, {}}, Collective::all_reduce, m, Algorithm::halving_doubling),
              2 * (3 * 1e-6 + (m / 2 + m / 4 + m / 8) / 900e9 + 5e-6 + m / 16 * 8 / 100e9), 1e-12);
}

TEST(Collective, DirectAllToAllByHand) {
  const Fabric fabric = make_fabric(tree_levels(), 256);
  const double m = 64 * kMiB;
  // Each of the 8 members of a node sends half of its buffer to the other node.
  EXPECT_NEAR(seconds(fabric, {0, {{1, 16}}, {}}, Collective::all_to_all, m, Algorithm::direct),
              5e-6 + 8 * m / 2 / 100e9, 1e-12);
}

TEST(Collective, TreeAndBroadcastByHand) {
  const Fabric fabric = make_fabric(rail_levels(), 256);
  const double m = 1e9;
  // Four nodes of 8: a chain of 7 hops inside, two levels of a binary tree across; each of 8 rails carries m/8 each
  // way.
  const double up = 7 * 1e-6 + 2 * 5e-6;
  EXPECT_NEAR(seconds(fabric, {0, {{1, 32}}, {}}, Collective::all_reduce, m, Algorithm::tree),
              2 * up + 2 * m / 8 / 50e9, 1e-9);
  EXPECT_NEAR(seconds(fabric, {0, {{1, 32}}, {}}, Collective::broadcast, m, Algorithm::tree), up + m / 8 / 50e9, 1e-9);
  // A chain through 32 devices: 3 hops between nodes, 28 inside.
  EXPECT_NEAR(seconds(fabric, {0, {{1, 32}}, {}}, Collective::broadcast, m, Algorithm::ring),
              3 * 5e-6 + 28 * 1e-6 + m / 50e9, 1e-9);
}

TEST(Collective, SendAndReceive) {
  const Fabric fabric = make_fabric(tree_levels(), 256);
  EXPECT_NEAR(seconds(fabric, {0, {{1, 2}}, {}}, Collective::send_recv, 9e8, Algorithm::direct), 1e-6 + 1e-3, 1e-12);
  // All 8 devices of a node send to the next node.
  EXPECT_NEAR(seconds(fabric, {0, {{8, 2}}, {{1, 8}}}, Collective::send_recv, 1e6, Algorithm::direct),
              5e-6 + 8e6 / 100e9, 1e-12);
}

TEST(Collective, ReportsItsBottleneck) {
  const Fabric fabric = make_fabric(tree_levels(), 256);
  const GroupLayout layout = make_layout(fabric, {0, {{8, 32}}, {{1, 8}}});
  const CollectiveTime time = algorithm_time(fabric, layout, Collective::all_reduce, 1e9, Algorithm::ring).value();
  EXPECT_EQ(time.bottleneck, 1U);  // 8 groups on 100 GB/s of a node are worse than on 400 GB/s of a rack
  EXPECT_NEAR(time.latency_s, 62 * 10e-6, 1e-12);
}

TEST(Collective, OnlyAllowedAlgorithmsAreChosen) {
  const Fabric fabric = make_fabric(tree_levels(), 256);
  const GroupLayout layout = make_layout(fabric, {0, {{1, 16}}, {}});
  AlgorithmSet rings;
  rings.add(Algorithm::ring);
  EXPECT_EQ(best_time(fabric, layout, Collective::all_reduce, 1e3, rings).algorithm, Algorithm::ring);
  EXPECT_NE(best_time(fabric, layout, Collective::all_reduce, 1e3).algorithm, Algorithm::ring);
  EXPECT_EQ(best_time(fabric, layout, Collective::all_to_all, 1e3, rings).algorithm,
            Algorithm::direct);  // nothing allowed fits
}

TEST(Collective, MessageOverheadCountsPerMessage) {
  Fabric fabric = make_fabric(tree_levels(), 256);
  const GroupSpec node{0, {{1, 8}}, {}};
  const double ring_s = seconds(fabric, node, Collective::all_reduce, 1e6, Algorithm::ring);
  const double direct_s = seconds(fabric, node, Collective::all_to_all, 1e6, Algorithm::direct);
  fabric.message_overhead_s = 2e-6;
  EXPECT_NEAR(seconds(fabric, node, Collective::all_reduce, 1e6, Algorithm::ring), ring_s + 14 * 2e-6, 1e-12);
  EXPECT_NEAR(seconds(fabric, node, Collective::all_to_all, 1e6, Algorithm::direct), direct_s + 7 * 2e-6, 1e-12);
}

// --- properties over random fabrics and groups
// ---------------------------------------------------------------------------

constexpr std::array kAll = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                             Collective::all_to_all, Collective::broadcast,  Collective::send_recv};

struct Case {
  std::vector<Level> levels;
  Fabric fabric;
  GroupSpec spec;
  double bytes = 0;
};

std::string describe(const Case& drawn, const GroupLayout& layout) {
  std::string text = "\nlevels";
  for (const Level& level : drawn.levels) {
    text += " " + std::to_string(level.group) + (level.rails ? "r" : "") + (level.rail_switches ? "s" : "");
  }
  text += " members";
  for (const Stride& axis : drawn.spec.members)
    text += " " + std::to_string(axis.stride) + "x" + std::to_string(axis.count);
  text += " siblings";
  for (const Stride& axis : drawn.spec.siblings)
    text += " " + std::to_string(axis.stride) + "x" + std::to_string(axis.count);
  return text + " inside " + testing::PrintToString(layout.inside) + " sharing " +
         testing::PrintToString(layout.sharing[1]) + "\n";
}

class Properties : public testing::Test {
 protected:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  double real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }

  Case draw() {
    Case drawn;
    const std::int64_t count = pick(1, 4);
    const std::int64_t rail = pick(0, 3);
    std::int64_t devices = 1;
    double latency_s = 1e-6;
    for (std::int64_t l = 0; l < count; ++l) {
      Level level;
      level.group = pick(1, 8);
      level.bandwidth_bytes_per_s = std::exp2(real(30, 40));
      latency_s *= real(1, 3);
      level.latency_s = latency_s;
      level.rails = l == rail && l > 0;
      level.rail_switches = level.rails && l + 1 < count && pick(0, 1) == 1;
      devices *= level.group;
      drawn.levels.push_back(level);
    }
    drawn.fabric = make_fabric(drawn.levels, devices);
    std::int64_t at = 1;
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t n = pick(1, 8);
      if (at * n > devices) break;
      (pick(0, 1) == 0 ? drawn.spec.members : drawn.spec.siblings).push_back({at, n});
      at *= n;
    }
    drawn.bytes = std::exp2(real(0, 33));
    return drawn;
  }

  std::mt19937_64 random_{7};
};

TEST_F(Properties, TimesAreConsistent) {
  for (int round = 0; round < 3000; ++round) {
    const Case drawn = draw();
    const GroupLayout layout = make_layout(drawn.fabric, drawn.spec);
    for (const Collective collective : kAll) {
      const CollectiveTime best = best_time(drawn.fabric, layout, collective, drawn.bytes);
      EXPECT_NEAR(best.seconds, best.latency_s + best.bandwidth_s, 1e-12 * best.seconds);
      if (layout.members > 1) {
        EXPECT_GT(best.seconds, 0);
      } else {
        EXPECT_EQ(best.seconds, 0);
      }
      for (std::size_t a = 0; a < kAlgorithms; ++a) {
        const auto time = algorithm_time(drawn.fabric, layout, collective, drawn.bytes, static_cast<Algorithm>(a));
        if (!time) continue;
        if (static_cast<Algorithm>(a) == Algorithm::pairwise && layout.fewest != layout.inside)
          continue;  // approximate
        EXPECT_GE(time->seconds, best.seconds * (1 - 1e-12))
            << describe(drawn, layout) << to_string(collective) << " " << to_string(static_cast<Algorithm>(a));
        const auto none = algorithm_time(drawn.fabric, layout, collective, 0, static_cast<Algorithm>(a)).value();
        EXPECT_EQ(none.bandwidth_s, 0);
        EXPECT_EQ(none.seconds, none.latency_s);
        EXPECT_LE(none.seconds, time->seconds * (1 + 1e-12));
        const auto twice =
            algorithm_time(drawn.fabric, layout, collective, 2 * drawn.bytes, static_cast<Algorithm>(a)).value();
        EXPECT_GE(twice.seconds, time->seconds * (1 - 1e-12));
      }
    }
  }
}

TEST_F(Properties, MoreBandwidthIsNeverSlower) {
  for (int round = 0; round < 3000; ++round) {
    const Case drawn = draw();
    std::vector<Level> faster = drawn.levels;
    const auto level = static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(faster.size()) - 1));
    faster[level].bandwidth_bytes_per_s *= real(1, 10);
    const Fabric fast = make_fabric(faster, drawn.fabric.devices);
    const GroupLayout layout = make_layout(drawn.fabric, drawn.spec);
    for (const Collective collective : kAll) {
      EXPECT_LE(best_time(fast, layout, collective, drawn.bytes).seconds,
                best_time(drawn.fabric, layout, collective, drawn.bytes).seconds * (1 + 1e-12));
    }
  }
}

TEST_F(Properties, AllReduceTakesAtLeastAReduceScatter) {
  for (int round = 0; round < 3000; ++round) {
    const Case drawn = draw();
    const GroupLayout layout = make_layout(drawn.fabric, drawn.spec);
    for (std::size_t a = 0; a < kAlgorithms; ++a) {
      const auto algorithm = static_cast<Algorithm>(a);
      const auto reduce = algorithm_time(drawn.fabric, layout, Collective::all_reduce, drawn.bytes, algorithm);
      const auto scatter = algorithm_time(drawn.fabric, layout, Collective::reduce_scatter, drawn.bytes, algorithm);
      if (reduce && scatter) {
        EXPECT_NEAR(reduce->seconds, 2 * scatter->seconds, 1e-12 * reduce->seconds);
      }
    }
  }
}

// The bottom line of any all-reduce: every member must send and receive 2m(n−1)/n over the links it has.
TEST_F(Properties, NoAllReduceBeatsTheLinksOfItsMembers) {
  for (int round = 0; round < 3000; ++round) {
    const Case drawn = draw();
    const GroupLayout layout = make_layout(drawn.fabric, drawn.spec);
    if (layout.members < 2) continue;
    double links = drawn.fabric.capacity[0];
    if (drawn.fabric.has_rails() && layout.top >= drawn.fabric.rail_level)
      links += drawn.fabric.capacity[drawn.fabric.rail_level];
    const double n = static_cast<double>(layout.members);
    EXPECT_GE(best_time(drawn.fabric, layout, Collective::all_reduce, drawn.bytes).seconds,
              2 * drawn.bytes * (n - 1) / n / links * (1 - 1e-9));
  }
}

TEST_F(Properties, MoreGroupsBesideNeverMakeItFaster) {
  for (int round = 0; round < 3000; ++round) {
    const Case drawn = draw();
    GroupSpec alone = drawn.spec;
    alone.siblings.clear();
    const GroupLayout busy = make_layout(drawn.fabric, drawn.spec);
    const GroupLayout quiet = make_layout(drawn.fabric, alone);
    for (const Collective collective : kAll) {
      EXPECT_GE(best_time(drawn.fabric, busy, collective, drawn.bytes).seconds,
                best_time(drawn.fabric, quiet, collective, drawn.bytes).seconds * (1 - 1e-12))
          << describe(drawn, busy) << describe({drawn.levels, drawn.fabric, alone, drawn.bytes}, quiet)
          << to_string(collective) << " " << to_string(best_time(drawn.fabric, busy, collective, drawn.bytes).algorithm)
          << " " << to_string(best_time(drawn.fabric, quiet, collective, drawn.bytes).algorithm);
    }
  }
}

// A group that is a prefix of another, member by member. (The best over algorithms may dip at powers of two, where
// halving-doubling becomes possible: then it is compared over doublings only.)
TEST_F(Properties, MoreMembersAreNeverFaster) {
  for (const auto& levels : {tree_levels(), rail_levels()}) {
    const Fabric fabric = make_fabric(levels, 256);
    for (const double bytes : {0.0, 1e3, 1e6, 1e9}) {
      for (const std::int64_t stride : {1, 2, 8}) {
        for (const auto& [collective, algorithm] : {std::pair{Collective::all_reduce, Algorithm::ring},
                                                    {Collective::all_gather, Algorithm::ring},
                                                    {Collective::all_to_all, Algorithm::direct},
                                                    {Collective::all_reduce, Algorithm::tree}}) {
          double before = 0;
          for (std::int64_t n = 2; n * stride <= 256; ++n) {
            // Trees are over whole nodes; and with rails the few devices of a partly used node or rack have more to
            // send far.
            const bool whole_nodes = n * stride <= 8 || n * stride % 8 == 0;
            const bool whole_racks = n * stride <= 8 || n * stride % 32 == 0;
            if (algorithm == Algorithm::tree && !whole_nodes) continue;
            if (algorithm == Algorithm::direct && fabric.has_rails() && !whole_racks) continue;
            const double now = seconds(fabric, {0, {{stride, n}}, {}}, collective, bytes, algorithm);
            // With rails a tree or a rotation across nodes uses more links than inside one; rings and direct exchanges
            // do not.
            if (algorithm != Algorithm::tree || !fabric.has_rails()) {
              EXPECT_GE(now, before * (1 - 1e-12)) << to_string(collective) << " " << to_string(algorithm) << " n=" << n
                                                   << " stride=" << stride << " bytes=" << bytes;
            }
            before = now;
          }
        }
        double before = 0;
        for (std::int64_t n = 2; n * stride <= 256; n *= 2) {
          const GroupLayout layout = make_layout(fabric, {0, {{stride, n}}, {}});
          const double now = best_time(fabric, layout, Collective::all_reduce, bytes).seconds;
          EXPECT_GE(now, before * (1 - 1e-12)) << "n=" << n << " stride=" << stride << " bytes=" << bytes;
          before = now;
        }
      }
    }
  }
}

TEST_F(Properties, RelabellingDevicesChangesNothing) {
  for (int round = 0; round < 500; ++round) {
    const Case drawn = draw();
    auto groups = list_groups(drawn.spec);
    const GroupLayout layout = count_layout(drawn.fabric, groups);
    // Shift everything by whole outermost units, cyclically, and list the groups in another order.
    const std::int64_t unit = drawn.fabric.unit[drawn.fabric.levels - 1];
    const std::int64_t shift = unit * pick(0, drawn.fabric.devices / unit - 1);
    for (auto& group : groups) {
      for (auto& device : group) device = (device + shift) % drawn.fabric.devices;
    }
    std::shuffle(groups.begin(), groups.end(), random_);
    const GroupLayout moved = count_layout(drawn.fabric, groups);
    for (const Collective collective : kAll) {
      EXPECT_DOUBLE_EQ(best_time(drawn.fabric, layout, collective, drawn.bytes).seconds,
                       best_time(drawn.fabric, moved, collective, drawn.bytes).seconds);
    }
  }
}

}  // namespace
}  // namespace nest::cluster
