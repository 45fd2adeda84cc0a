// Uneven clusters: units of different sizes. Layouts found by arithmetic against counting every device, and counting
// against hand-computed values.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"
#include "cluster/cluster.h"
#include "cluster/lattice_layout.h"

namespace nest::cluster {
namespace {

Level level_of(std::size_t index, std::int64_t group, std::vector<std::int64_t> counts = {}) {
  Level level;
  level.name = "level" + std::to_string(index + 1);
  level.group = counts.empty() ? group : *std::max_element(counts.begin(), counts.end());
  level.counts = std::move(counts);
  level.bandwidth_bytes_per_s = 1e9 * static_cast<double>(index + 1);
  level.latency_s = 1e-6 * static_cast<double>(index + 1);
  return level;
}

std::string show(const Fabric& fabric, const GroupSpec& spec) {
  std::string text = std::to_string(fabric.devices) + " devices,";
  for (std::size_t l = 1; l < fabric.levels; ++l) {
    for (const UnitStretch& stretch : fabric.stretches[l])
      text += " " + std::to_string(stretch.units) + " x " + std::to_string(stretch.size);
    text += " |";
  }
  text += " first " + std::to_string(spec.first) + " members";
  for (const Stride& axis : spec.members) text += " " + std::to_string(axis.stride) + "x" + std::to_string(axis.count);
  text += " siblings";
  for (const Stride& axis : spec.siblings) text += " " + std::to_string(axis.stride) + "x" + std::to_string(axis.count);
  return text;
}

class Uneven : public testing::Test {
 protected:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  // Levels that hold at most `at_most` devices; each level has units of one size, of nearly one size, or of any.
  Fabric draw_fabric(std::int64_t at_most) {
    const auto count = static_cast<std::size_t>(pick(1, 5));
    std::vector<Level> levels(count);
    std::int64_t units = 1;
    const auto rail = static_cast<std::size_t>(pick(0, 4));
    for (std::size_t l = count; l-- > 0;) {
      const std::int64_t room = std::max<std::int64_t>(1, std::min<std::int64_t>(12, at_most / units));
      const std::int64_t group = pick(1, room);
      const std::int64_t kind = pick(0, 3);
      std::vector<std::int64_t> counts;
      for (std::int64_t u = 0; u < units && kind > 0; ++u) {
        counts.push_back(kind == 1 && pick(0, 5) > 0 ? group : pick(1, group));
      }
      levels[l] = level_of(l, group, counts);
      levels[l].rails = l == rail && l > 0;
      std::int64_t children = 0;
      for (const std::int64_t c : counts) children += c;
      units = counts.empty() ? units * group : children;
    }
    return make_fabric(levels, units);
  }

  // Axes that start where the one before ended or later, in either role.
  GroupSpec draw_spec(std::int64_t devices) {
    GroupSpec spec;
    spec.first = pick(0, 2) == 0 ? pick(0, devices - 1) : 0;
    std::int64_t at = 1;
    std::int64_t reach = spec.first;
    const std::int64_t axes = pick(1, 5);
    for (std::int64_t axis = 0; axis < axes; ++axis) {
      const std::int64_t stride = at + (pick(0, 2) == 0 ? pick(0, at) : 0);
      const std::int64_t room = (devices - 1 - reach) / stride + 1;
      if (room < 1) break;
      const std::int64_t n = pick(0, 3) == 0 ? room : pick(1, std::min<std::int64_t>(room, pick(1, 30)));
      (pick(0, 1) == 0 ? spec.members : spec.siblings).push_back({stride, n});
      reach += stride * (n - 1);
      at = stride * n;
    }
    return spec;
  }

  std::mt19937_64 random_{20261};
};

std::vector<Stride> sorted_axes(const std::vector<Stride>& axes) {
  std::vector<Stride> kept;
  for (const Stride& axis : axes) {
    if (axis.count > 1) kept.push_back(axis);
  }
  std::sort(kept.begin(), kept.end(), [](const Stride& a, const Stride& b) { return a.stride < b.stride; });
  return kept;
}

TEST_F(Uneven, ArithmeticEqualsCounting) {
  int uneven = 0;
  for (int round = 0; round < 20000; ++round) {
    const Fabric fabric = draw_fabric(round % 10 == 0 ? 1200 : 150);
    const GroupSpec spec = draw_spec(fabric.devices);
    const GroupLayout counted = count_layout(fabric, list_groups(spec));
    const GroupLayout found = lattice_layout(fabric, spec.first, sorted_axes(spec.members), sorted_axes(spec.siblings));
    ASSERT_EQ(found.members, counted.members) << show(fabric, spec);
    ASSERT_EQ(found.top, counted.top) << show(fabric, spec);
    ASSERT_EQ(found.inside, counted.inside) << show(fabric, spec);
    ASSERT_EQ(found.head, counted.head) << show(fabric, spec);
    ASSERT_EQ(found.fewest, counted.fewest) << show(fabric, spec);
    ASSERT_EQ(found.most, counted.most) << show(fabric, spec);
    ASSERT_EQ(found.groups_inside, counted.groups_inside) << show(fabric, spec);
    ASSERT_EQ(found.ring_exits, counted.ring_exits) << show(fabric, spec);
    ASSERT_EQ(found.sharing, counted.sharing) << show(fabric, spec);
    ASSERT_EQ(found, counted) << show(fabric, spec);  // and what has no line of its own above
    if (!fabric.regular) {
      ++uneven;
      ASSERT_EQ(make_layout(fabric, spec), counted) << show(fabric, spec);
    }
  }
  EXPECT_GT(uneven, 5000);
}

// Many racks of few sizes, so that borders are alike and most are passed over; groups small and large, with gaps.
TEST_F(Uneven, BordersThatAreAlike) {
  for (int round = 0; round < 4000; ++round) {
    const std::int64_t node = pick(1, 8);
    std::vector<std::int64_t> racks(static_cast<std::size_t>(pick(2, 24)));
    const std::int64_t small = pick(1, 6);
    for (std::int64_t& rack : racks) rack = small + pick(0, 2);
    std::vector<std::int64_t> pods;
    for (auto left = static_cast<std::int64_t>(racks.size()); left > 0; left -= pods.back()) {
      pods.push_back(std::min(left, pick(1, 4)));
    }
    std::int64_t devices = 0;
    for (const std::int64_t rack : racks) devices += rack * node;
    const Fabric fabric = make_fabric({level_of(0, node), level_of(1, 0, racks), level_of(2, 0, pods),
                                       level_of(3, static_cast<std::int64_t>(pods.size()))},
                                      devices);
    GroupSpec spec;
    spec.first = pick(0, std::min<std::int64_t>(devices - 1, 9));
    std::int64_t at = 1;
    std::int64_t reach = spec.first;
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t stride = at + (pick(0, 3) == 0 ? pick(0, 3) : 0);
      const std::int64_t room = (devices - 1 - reach) / stride + 1;
      const std::int64_t n = axis == 2 ? room : pick(1, std::min<std::int64_t>(room, 9));
      (pick(0, 1) == 0 ? spec.members : spec.siblings).push_back({stride, n});
      reach += stride * (n - 1);
      at = stride * n;
    }
    const GroupLayout counted = count_layout(fabric, list_groups(spec));
    ASSERT_EQ(lattice_layout(fabric, spec.first, sorted_axes(spec.members), sorted_axes(spec.siblings)), counted)
        << show(fabric, spec);
  }
}

TEST_F(Uneven, EveryStrideOnSmallRacks) {
  // Racks of 3, 1 and 2 nodes; nodes of 4, 2, 4 | 3 | 1, 4 devices.
  const Fabric fabric =
      make_fabric({level_of(0, 0, {4, 2, 4, 3, 1, 4}), level_of(1, 0, {3, 1, 2}), level_of(2, 3)}, 18);
  for (std::int64_t first = 0; first < 18; ++first) {
    for (std::int64_t stride = 1; stride < 18; ++stride) {
      for (std::int64_t count = 2; first + stride * (count - 1) < 18; ++count) {
        for (std::int64_t beside = 1; beside <= stride && first + stride * (count - 1) + beside <= 18; ++beside) {
          const GroupSpec spec{first, {{stride, count}}, {{1, beside}}};
          ASSERT_EQ(make_layout(fabric, spec), count_layout(fabric, list_groups(spec))) << show(fabric, spec);
        }
        for (std::int64_t groups = 1; first + stride * count * groups <= 18; ++groups) {
          const GroupSpec spec{first, {{stride, count}}, {{stride * count, groups}}};
          ASSERT_EQ(make_layout(fabric, spec), count_layout(fabric, list_groups(spec))) << show(fabric, spec);
        }
      }
    }
  }
}

TEST_F(Uneven, ThousandNodesInUnevenRacks) {
  std::vector<std::int64_t> racks;
  std::int64_t nodes = 0;
  while (nodes < 1000) {
    racks.push_back(std::min<std::int64_t>(1000 - nodes, pick(9, 16)));
    nodes += racks.back();
  }
  const auto units = static_cast<std::int64_t>(racks.size());
  const Fabric fabric = make_fabric({level_of(0, 8), level_of(1, 0, racks), level_of(2, units)}, 8000);
  for (const GroupSpec& spec :
       {GroupSpec{0, {{24, 333}}, {{1, 24}}}, GroupSpec{0, {{1, 6}}, {{6, 1333}}},
        GroupSpec{0, {{8, 25}}, {{1, 8}, {200, 40}}}, GroupSpec{3, {{5, 4}, {100, 70}}, {{1, 5}, {20, 5}}}}) {
    EXPECT_EQ(make_layout(fabric, spec), count_layout(fabric, list_groups(spec))) << show(fabric, spec);
  }
}

TEST_F(Uneven, ByHand) {
  // Two racks of 3 and 1 nodes of 4: 12 + 4 devices. Groups of two neighbours of stride 4 … beside each other.
  const Fabric fabric = make_fabric({level_of(0, 4), level_of(1, 0, {3, 1}), level_of(2, 2)}, 16);
  EXPECT_EQ(fabric.unit[1], 4);
  EXPECT_EQ(fabric.unit[2], 12);
  EXPECT_EQ(fabric.unit_of(2, 11), 0);
  EXPECT_EQ(fabric.unit_of(2, 12), 1);
  EXPECT_EQ(fabric.unit_at(2, 13).begin, 12);
  const GroupLayout data = make_layout(fabric, {0, {{4, 4}}, {{1, 4}}});
  EXPECT_EQ(data.top, 2U);
  EXPECT_EQ(data.inside[1], 1);
  EXPECT_EQ(data.inside[2], 3);  // 3 | 1
  EXPECT_EQ(data.fewest[2], 1);
  EXPECT_EQ(data.sharing[1][2], 4);
  EXPECT_EQ(data.sharing[2][2], 4);
  // Groups of 6: the racks cut none; the second begins in the second node.
  const GroupLayout six = make_layout(fabric, {0, {{1, 6}}, {{6, 2}}});
  EXPECT_EQ(six.top, 1U);
  EXPECT_EQ(six.sharing[1][1], 2);
  EXPECT_EQ(six.inside[1], 4);
  EXPECT_EQ(six.fewest[1], 2);
}

// --- collectives, flow by flow
// ----------------------------------------------------------------------------------------------------------

// The busiest link when every (from, to) of `flows` is under way at once: flows on it over its capacity.
double busiest_link(const Fabric& fabric, const std::vector<std::pair<std::int64_t, std::int64_t>>& flows) {
  double most = 0;
  for (std::size_t l = 0; l < fabric.levels; ++l) {
    std::map<std::int64_t, std::int64_t> up;
    std::map<std::int64_t, std::int64_t> down;
    for (const auto& [from, to] : flows) {
      if (fabric.unit_of(l, from) == fabric.unit_of(l, to)) continue;
      ++up[fabric.unit_of(l, from)];
      ++down[fabric.unit_of(l, to)];
    }
    for (const auto* direction : {&up, &down}) {
      for (const auto& [unit, count] : *direction) {
        most = std::max(most, static_cast<double>(count) / fabric.capacity[l]);
      }
    }
  }
  return most;
}

TEST_F(Uneven, RingsLoadTheLinksThatFlowsLoad) {
  for (int round = 0; round < 3000; ++round) {
    Fabric fabric = draw_fabric(120);
    if (fabric.has_rails()) continue;  // ports are not links of units
    fabric.latency_s.fill(0);
    const GroupSpec spec = draw_spec(fabric.devices);
    if (spec.size() < 2) continue;
    std::vector<std::pair<std::int64_t, std::int64_t>> flows;
    for (const auto& group : list_groups(spec)) {
      for (std::size_t i = 0; i < group.size(); ++i) flows.emplace_back(group[i], group[(i + 1) % group.size()]);
    }
    const double n = static_cast<double>(spec.size());
    const auto ring =
        algorithm_time(fabric, make_layout(fabric, spec), Collective::all_reduce, n * 1e9, Algorithm::ring);
    ASSERT_TRUE(ring.has_value());
    const double counted = 2 * (n - 1) * 1e9 * busiest_link(fabric, flows);
    EXPECT_NEAR(ring->seconds, counted, 1e-9 * counted) << show(fabric, spec);
  }
}

TEST_F(Uneven, AllToAllIsNeverFasterThanItsFlows) {
  int exact = 0;
  for (int round = 0; round < 2000; ++round) {
    Fabric fabric = draw_fabric(60);
    if (fabric.has_rails()) continue;
    fabric.latency_s.fill(0);
    const GroupSpec spec = draw_spec(fabric.devices);
    if (spec.size() < 2) continue;
    std::vector<std::pair<std::int64_t, std::int64_t>> flows;
    for (const auto& group : list_groups(spec)) {
      for (const std::int64_t from : group) {
        for (const std::int64_t to : group) {
          if (from != to) flows.emplace_back(from, to);
        }
      }
    }
    const double n = static_cast<double>(spec.size());
    const double formula =
        algorithm_time(fabric, make_layout(fabric, spec), Collective::all_to_all, n * 1e9, Algorithm::direct)->seconds;
    const double counted = 1e9 * busiest_link(fabric, flows);
    EXPECT_GE(formula, counted * (1 - 1e-9)) << show(fabric, spec);
    exact += formula <= counted * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_GT(exact, 500);
}

TEST_F(Uneven, SummariesSayHowUnitsDiffer) {
  const Document document = doc::parse_yaml("uneven.yaml",
                                            "device: h100\n"
                                            "levels:\n"
                                            "  - {name: node, group: 8, bandwidth: 450GB/s, latency: 3us}\n"
                                            "  - {name: rack, counts: [3, 1, 4], bandwidth: 50GB/s, latency: 5us}\n"
                                            "  - {name: pod, group: 3, bandwidth: 200GB/s, latency: 8us}\n"
                                            "node_names: [a1, a2, a3, b1, c1, c2, c3, c4]\n");
  const Cluster cluster = read_cluster(document, "uneven");
  EXPECT_EQ(cluster.devices, 64);
  const std::vector<LevelSummary> levels = summarise(cluster);
  ASSERT_EQ(levels.size(), 3U);
  EXPECT_EQ(levels[0].units, 8);
  EXPECT_EQ(levels[0].fewest_devices_per_unit, 8);
  EXPECT_EQ(levels[1].units, 3);
  EXPECT_EQ(levels[1].devices_per_unit, 32);
  EXPECT_EQ(levels[1].fewest_devices_per_unit, 8);
  EXPECT_EQ(levels[2].units, 1);
  EXPECT_EQ(levels[2].fewest_devices_per_unit, 64);
  EXPECT_THROW(resized(cluster, 32), InputError);
}

}  // namespace
}  // namespace nest::cluster
