// Layout arithmetic against counting every device.
#include "cluster/layout.h"

#include <gmock/gmock.h>

#include <random>

#include "base/error.h"

namespace nest::cluster {
namespace {

Fabric fabric_of(const std::vector<std::int64_t>& groups, bool rails = false) {
  std::vector<Level> levels;
  std::int64_t devices = 1;
  for (const std::int64_t group : groups) {
    Level level;
    level.group = group;
    level.bandwidth_bytes_per_s = 1e9;
    level.latency_s = 1e-6 * static_cast<double>(levels.size() + 1);
    level.rails = rails && levels.size() == 1;
    levels.push_back(level);
    devices *= group;
  }
  return make_fabric(levels, devices);
}

std::string show(const GroupSpec& spec) {
  std::string text = "first " + std::to_string(spec.first) + " members";
  for (const Stride& axis : spec.members) text += " " + std::to_string(axis.stride) + "x" + std::to_string(axis.count);
  text += " siblings";
  for (const Stride& axis : spec.siblings) text += " " + std::to_string(axis.stride) + "x" + std::to_string(axis.count);
  return text;
}

void expect_same(const Fabric& fabric, const GroupSpec& spec) {
  const GroupLayout fast = make_layout(fabric, spec);
  const GroupLayout counted = count_layout(fabric, list_groups(spec));
  ASSERT_TRUE(fast.exact) << show(spec);
  EXPECT_EQ(fast.members, counted.members) << show(spec);
  if (fast.members == 1) return;
  EXPECT_EQ(fast.top, counted.top) << show(spec);
  EXPECT_EQ(fast.inside, counted.inside) << show(spec);
  EXPECT_EQ(fast.fewest, counted.fewest) << show(spec);
  EXPECT_EQ(fast.most, counted.most) << show(spec);
  EXPECT_EQ(fast.groups_inside, counted.groups_inside) << show(spec);
  EXPECT_EQ(fast.ring_exits, counted.ring_exits) << show(spec);
  EXPECT_EQ(fast.sharing, counted.sharing) << show(spec);
  EXPECT_EQ(fast.in_order, counted.in_order) << show(spec);
}

TEST(Layout, HandComputed) {
  // 4 racks of 4 nodes of 8. Tensor-parallel 8 in nodes, data-parallel 16 across them.
  const Fabric fabric = fabric_of({8, 4, 4});
  const GroupLayout tensor = make_layout(fabric, {0, {{1, 8}}, {{8, 16}}});
  EXPECT_EQ(tensor.top, 0U);
  EXPECT_EQ(tensor.sharing[0][0], 1);
  EXPECT_EQ(tensor.inside[1], 8);
  EXPECT_EQ(tensor.groups_inside[2], 4);
  const GroupLayout data = make_layout(fabric, {0, {{8, 16}}, {{1, 8}}});
  EXPECT_EQ(data.top, 2U);
  EXPECT_EQ(data.inside[1], 1);
  EXPECT_EQ(data.inside[2], 4);
  EXPECT_EQ(data.sharing[1][1], 8);
  EXPECT_EQ(data.sharing[2][2], 8);
}

TEST(Layout, ContiguousGroupsAtEveryOffset) {
  const Fabric fabric = fabric_of({4, 3, 2});
  for (std::int64_t size = 2; size <= 24; ++size) {
    for (std::int64_t first = 0; first + size <= 24; ++first) {
      for (std::int64_t groups = 1; first + size * groups <= 24; ++groups)
        expect_same(fabric, {first, {{1, size}}, {{size, groups}}});
    }
  }
}

TEST(Layout, StridedGroupsAndTheirTiles) {
  for (const auto& shape : {std::vector<std::int64_t>{8, 4, 2}, {2, 2, 2, 2}, {6, 4}, {4, 3, 2}}) {
    const Fabric fabric = fabric_of(shape);
    for (std::int64_t stride = 1; stride <= fabric.devices / 2; ++stride) {
      for (std::int64_t count = 2; stride * count <= fabric.devices; ++count) {
        const std::int64_t tiles = fabric.devices / (stride * count);
        expect_same(fabric, {0, {{stride, count}}, {}});
        expect_same(fabric, {0, {{stride, count}}, {{1, stride}}});
        expect_same(fabric, {0, {{stride, count}}, {{1, stride}, {stride * count, tiles}}});
      }
    }
  }
}

TEST(Layout, TwoAxesInBothRoles) {
  const Fabric fabric = fabric_of({4, 4, 4}, true);
  for (const std::int64_t inner : {1, 2, 4, 8}) {
    for (const std::int64_t middle : {1, 2, 4}) {
      for (const std::int64_t outer : {1, 2, 4}) {
        if (inner * middle * outer > 64) continue;
        const Stride a{1, inner};
        const Stride b{inner, middle};
        const Stride c{inner * middle, outer};
        expect_same(fabric, {0, {a, c}, {b}});
        expect_same(fabric, {0, {b}, {a, c}});
        expect_same(fabric, {0, {c}, {a, b}});
      }
    }
  }
}

TEST(Layout, RandomShapesNeverCountLess) {
  // Whatever path is taken, the layout is exact or an upper bound of what counting finds.
  std::mt19937_64 random(20260);
  for (int round = 0; round < 2000; ++round) {
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    const Fabric fabric = fabric_of({pick(1, 6), pick(1, 5), pick(1, 4)}, pick(0, 1) == 1);
    GroupSpec spec;
    std::int64_t at = 1;
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t stride = at * pick(1, 2);
      const std::int64_t count = pick(1, 4);
      if (stride * count > fabric.devices) break;
      (pick(0, 1) == 0 ? spec.members : spec.siblings).push_back({stride, count});
      at = stride * count;
    }
    expect_same(fabric, spec);
  }
}

TEST(Layout, ContiguousGroupsInLargerClusters) {
  const Fabric fabric = fabric_of({8, 4, 16});
  for (const std::int64_t size : {3, 5, 6, 7, 9, 12, 20, 24, 31, 33, 48, 100}) {
    for (const std::int64_t first : {0, 1, 4, 13, 28})
      expect_same(fabric, {first, {{1, size}}, {{size, (512 - first) / size}}});
  }
}

TEST(Layout, LargeClustersCostNothing) {
  const Fabric fabric = fabric_of({8, 32, 1 << 12});
  ASSERT_EQ(fabric.devices, 1 << 20);
  const GroupLayout data = make_layout(fabric, {0, {{8, 1 << 17}}, {{1, 8}}});
  EXPECT_TRUE(data.exact);
  EXPECT_EQ(data.inside[2], 32);
  EXPECT_EQ(data.sharing[2][2], 8);
  const GroupLayout odd = make_layout(fabric, {0, {{1, 3}}, {{3, (1 << 20) / 3}}});
  EXPECT_EQ(odd.sharing[1][1], 2);
}

TEST(Layout, BeyondCountingItIsAnUpperBound) {
  // Every 3rd device in nodes of 8: neither aligned nor contiguous, 98,304 devices.
  const Fabric large = fabric_of({8, 4, 1 << 12});
  const GroupLayout bound = make_layout(large, {0, {{3, 1 << 15}}, {{1, 3}}});
  EXPECT_FALSE(bound.exact);
  const Fabric small = fabric_of({8, 4, 1 << 6});
  const GroupLayout exact = make_layout(small, {0, {{3, 1 << 9}}, {{1, 3}}});
  EXPECT_TRUE(exact.exact);
  for (std::size_t l = 0; l < 3; ++l) {
    EXPECT_GE(bound.inside[l], exact.inside[l]);
    EXPECT_GE(bound.sharing[l][l], exact.sharing[l][l]);
  }
}

TEST(Layout, GroupsOutsideTheClusterAreABug) {
  EXPECT_THROW(make_layout(fabric_of({4, 2}), {4, {{1, 8}}, {}}), InternalError);
}

}  // namespace
}  // namespace nest::cluster
