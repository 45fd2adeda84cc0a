#include "groups/rank_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/reach.h"

namespace nest::groups {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// tp 2, experts over four ranks, two stages, eight replicas of which four stand together: blocks of 8 devices, pipelines
// of 16 every 20.
Strategy small() {
  Strategy strategy;
  strategy.split = {.tp = 2, .sp = true, .cp = 1, .ep = 4, .etp = 1};
  strategy.pp = 2;
  strategy.dp = 8;
  strategy.dp_inner = 4;
  strategy.pitch = 20;
  return strategy;
}

TEST(RankGroups, KnowsWhereRanksSit) {
  const RankGroups ranks(small());
  EXPECT_EQ(ranks.block(), 8);
  // Replica 7 is the last of the second pipeline: 20 + 1 · 8 + 3 · 2.
  EXPECT_EQ(ranks.device_of(Place{1, 7, 0}), 34);
  EXPECT_EQ(ranks.device_of(StageRank{1, 14}), 34);
  EXPECT_EQ(ranks.place_of(34), (Place{1, 7, 0}));
  EXPECT_EQ(ranks.place_of(17), std::nullopt);  // between the pipelines
  EXPECT_EQ(ranks.place_of(36), std::nullopt);
  EXPECT_EQ(ranks.number_of(34), 30);
  EXPECT_EQ(ranks.device_number(30), 34);
  EXPECT_EQ(ranks.split_of(1).tp, 2);
}

// tp 2, cp 4: neighbours trade heads in pairs, rings join those that hold the same ones.
TEST(RankGroups, DividesContextRanks) {
  Strategy strategy;
  strategy.split = {.tp = 2, .cp = 4, .cp_comm = ContextExchange::a2a_p2p, .cp_inner = 2};
  const RankGroups ranks(strategy);
  const RankGroups::ContextParts parts = ranks.context_parts(0);
  EXPECT_THAT(list_groups(parts.heads),
              UnorderedElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(list_groups(parts.ring),
              UnorderedElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
  strategy.split = {.cp = 4, .cp_comm = ContextExchange::a2a};
  EXPECT_THAT(list_groups(RankGroups(strategy).context_parts(0).heads), ElementsAre(ElementsAre(0, 1, 2, 3)));
}

TEST(RankGroups, FormsGroupsOfDevices) {
  const RankGroups ranks(small());
  // Experts of stage 1: four devices, of two replicas.
  EXPECT_THAT(list_groups(ranks.groups(Kind::expert, 1)),
              UnorderedElementsAre(ElementsAre(8, 9, 10, 11), ElementsAre(12, 13, 14, 15), ElementsAre(28, 29, 30, 31),
                                   ElementsAre(32, 33, 34, 35)));
  EXPECT_THAT(list_groups(ranks.groups(Kind::dense, 0)),
              ElementsAre(ElementsAre(0, 2, 4, 6, 20, 22, 24, 26), ElementsAre(1, 3, 5, 7, 21, 23, 25, 27)));
  EXPECT_THAT(list_groups(ranks.groups(Kind::expert_data, 0)).front(), ElementsAre(0, 4, 20, 24));
  EXPECT_EQ(ranks.groups(Kind::pipeline, 0).groups(), 16);
  EXPECT_THAT(list_groups(ranks.groups(Kind::pipeline, 0))[5], ElementsAre(5, 13));
}

TEST(RankGroups, DividesStateOverTheInnermostRanks) {
  const RankGroups ranks(small());
  const StateGroups dense = ranks.state(Weights::dense, 1, 4);
  EXPECT_THAT(list_groups(dense.shard), UnorderedElementsAre(ElementsAre(8, 10, 12, 14), ElementsAre(9, 11, 13, 15),
                                                             ElementsAre(28, 30, 32, 34), ElementsAre(29, 31, 33, 35)));
  EXPECT_THAT(list_groups(dense.replicate).front(), ElementsAre(8, 28));
  EXPECT_EQ(dense.replicate.groups(), 8);
  EXPECT_EQ(ranks.zero_degrees(0).dense, 8);   // 8 replicas
  EXPECT_EQ(ranks.zero_degrees(0).expert, 4);  // of 16 ranks, 4 hold a set
  EXPECT_EQ(ranks.zero_degrees(4).expert, 2);  // two groups of each
  EXPECT_TRUE(ranks.can_shard(4));
  EXPECT_FALSE(ranks.can_shard(3));
  EXPECT_FALSE(ranks.can_shard(16));
}

// Whether the innermost `degree` of ranks that are counted by these numbers, innermost first, are whole equal parts.
bool divides(const std::array<std::int64_t, 3>& counts, std::int64_t degree) {
  for (const std::int64_t count : counts) {
    if (degree % count == 0) {
      degree /= count;
    } else if (count % degree == 0) {
      degree = 1;
    } else {
      return false;
    }
  }
  return degree == 1;
}

TEST(RankGroups, DegreesRespectReplicasAndPipelines) {
  std::mt19937 random(13);
  const auto upto = [&](std::int64_t most) { return 1 + static_cast<std::int64_t>(random()) % most; };
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Strategy s;
    s.split.tp = upto(3);
    s.split.cp = upto(4);
    s.split.ep = upto(3);
    s.split.etp = upto(4) - 1;
    const std::int64_t team =
        std::lcm(s.split.tp * s.split.cp, s.split.expert_tp() * s.split.ep) / (s.split.tp * s.split.cp);
    const std::int64_t teams = upto(4), outer = upto(4);
    s.dp_inner = team * teams;
    s.dp = s.dp_inner * outer;
    s.pp = upto(2);
    const RankGroups ranks(s);
    const std::int64_t dense = s.dp * s.split.cp, expert = s.dp * s.split.cp * s.split.tp / s.split.expert_devices();
    const std::int64_t sets = s.split.tp * s.split.cp * team / s.split.expert_devices();  // in a team
    ASSERT_EQ(dense_replicas(s), ranks.size(Kind::dense));
    ASSERT_EQ(expert_replicas(s), ranks.size(Kind::expert_data));
    for (std::int64_t degree = 1; degree <= dense; ++degree) {
      const bool even = divides({s.split.cp * team, teams, outer}, degree);
      ASSERT_EQ(ranks.can_shard(degree), even) << "degree " << degree << " cp " << s.split.cp << " ep " << s.split.ep
                                               << " dp " << s.dp << " inner " << s.dp_inner;
      refused += !even && dense % degree == 0;
      if (!even) continue;
      std::int64_t share = std::max<std::int64_t>(1, expert * degree / dense);
      while (!divides({sets, teams, outer}, share)) --share;
      ASSERT_EQ(ranks.zero_degrees(degree).dense, degree);
      ASSERT_EQ(ranks.zero_degrees(degree).expert, share);
    }
    ASSERT_FALSE(ranks.can_shard(dense + 1));
  }
  EXPECT_GT(refused, 100);
}

cluster::Cluster tree(std::int64_t node, std::int64_t rack, std::int64_t devices) {
  cluster::Cluster cluster;
  cluster.devices = devices;
  for (const auto& [name, group] : {std::pair{"node", node}, {"rack", rack}, {"spine", devices}}) {
    cluster::Level level;
    level.name = name;
    level.group = group;
    level.bandwidth_bytes_per_s = 1e9;
    cluster.levels.push_back(level);
  }
  cluster.fabric = cluster::make_fabric(cluster.levels, devices);
  return cluster;
}

// Devices and groups of the naive formulas of a strategy, against the strides; and how far they reach.
TEST(RankGroups, GroupsAndReachAreThoseFoundByEnumeration) {
  std::mt19937 random(5);
  const auto upto = [&](std::int64_t most) { return 1 + static_cast<std::int64_t>(random()) % most; };
  std::set<std::size_t> levels;
  for (int i = 0; i < 2000; ++i) {
    Strategy s;
    s.split.tp = upto(4);
    s.split.cp = upto(3);
    s.split.ep = upto(4);
    s.split.etp = upto(4) - 1;
    s.pp = upto(3);
    s.dp_inner = s.split.team() * upto(3);
    s.dp = s.dp_inner * upto(3);
    if (random() % 2 == 0) s.pitch = s.pipeline_block() + upto(9) - 1;
    const RankGroups ranks(s);
    const std::int64_t a = s.split.tp * s.split.cp, etp = s.split.etp == 0 ? s.split.tp : s.split.etp;
    const cluster::Cluster cluster = tree(upto(6), upto(4), s.devices_spanned());

    // A key for every kind: what the members of a group have in common.
    using Common = std::array<std::int64_t, 5>;
    std::array<std::map<Common, std::vector<std::int64_t>>, kKinds.size()> naive;
    std::int64_t number = 0;
    std::map<std::int64_t, Place> used;
    for (std::int64_t r = 0; r < s.dp; ++r) {
      for (std::int64_t p = 0; p < s.pp; ++p) {
        for (std::int64_t q = 0; q < a; ++q) {
          const std::int64_t device = device_of(s, r, p, q);
          used[device] = {p, r, q};
          const std::int64_t t = q % s.split.tp, c = q / s.split.tp;
          const std::int64_t rank = r * a + q, x = rank % etp, e = rank / etp % s.split.ep;
          const std::int64_t f = rank / (etp * s.split.ep);
          const std::array<Common, kKinds.size()> keys = {{{p, c, r},  // tensor
                                                           {p, t, r},  // context
                                                           {p, t, c},  // data
                                                           {p, t},     // dense
                                                           {p, x, f},  // expert
                                                           {p, f},     // tensor_expert
                                                           {p, e, f},  // expert_tensor
                                                           {p, x, e},  // expert_data
                                                           {r, q}}};   // pipeline
          for (std::size_t k = 0; k < kKinds.size(); ++k) naive[k][keys[k]].push_back(device);
          ASSERT_EQ(ranks.device_of(Place{p, r, q}), device);
          ASSERT_EQ(ranks.device_of(StageRank{p, r * a + q}), device);
        }
      }
    }
    for (std::int64_t device = 0; device < s.devices_spanned() + 5; ++device) {
      const auto place = ranks.place_of(device);
      ASSERT_EQ(place.has_value(), used.contains(device));
      if (!place) continue;
      ASSERT_EQ(*place, used[device]);
      ASSERT_EQ(ranks.number_of(device), number);
      ASSERT_EQ(ranks.device_number(number++), device);
    }
    for (std::size_t k = 0; k < kKinds.size(); ++k) {
      const Kind kind = kKinds[k];
      std::set<std::vector<std::int64_t>> expected, found;
      std::size_t level = 0;
      bool any = false;
      for (auto& [key, members] : naive[k]) {
        std::sort(members.begin(), members.end());
        expected.insert(members);
        ASSERT_EQ(ranks.size(kind), static_cast<std::int64_t>(members.size()));
        for (const std::int64_t member : members) {
          any = any || member != members.front();
          if (member != members.front()) level = std::max(level, cluster.fabric.level_between(members.front(), member));
        }
      }
      cluster::Reach reach;
      for (std::int64_t p = 0; p < (kind == Kind::pipeline ? 1 : s.pp); ++p) {
        const GroupSpec spec = ranks.groups(kind, p);
        for (auto& members : list_groups(spec)) {
          ASSERT_TRUE(std::is_sorted(members.begin(), members.end()));
          ASSERT_TRUE(found.insert(members).second);
        }
        reach.add(cluster::reach_of(cluster, spec));
      }
      ASSERT_EQ(found, expected) << "kind " << k << " tp " << s.split.tp << " cp " << s.split.cp << " ep " << s.split.ep
                                 << " etp " << s.split.etp << " pp " << s.pp << " dp " << s.dp << " inner "
                                 << s.dp_inner << " pitch " << s.pitch;
      ASSERT_EQ(reach.any(), any);
      ASSERT_EQ(reach.level(), level);
      levels.insert(level);
    }
  }
  EXPECT_EQ(levels.size(), 3U);
}

TEST(Reach, NamesLevelsAndDimensions) {
  const cluster::Cluster cluster = tree(4, 2, 16);
  cluster::Reach reach;
  EXPECT_EQ(reach.text(cluster), "on one device");
  reach.add(cluster, 3, 3);
  EXPECT_FALSE(reach.any());
  reach.add(cluster, 0, 3);
  EXPECT_EQ(reach.text(cluster), "inside a node");
  reach.add(cluster, 3, 4);
  EXPECT_EQ(reach.text(cluster), "inside a rack");
  cluster::Cluster torus = cluster;
  torus.torus = cluster::Torus{};
  torus.torus->dims = {4, 2, 2};
  torus.torus->wrap = {true, true, true};
  EXPECT_EQ(cluster::reach_of(torus, {0, {{1, 2}, {8, 2}}, {}}).text(torus), "along x, z");
}

}  // namespace
}  // namespace nest::groups
