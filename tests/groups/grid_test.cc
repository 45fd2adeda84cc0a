#include "groups/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <vector>

namespace nest::groups {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 32 ranks: TP 2, CP 2, DP 4, PP 2; ETP 1, EP 8, so EDP 2. Checked against Megatron's own rank generator.
constexpr GridSizes kSizes{.tp = 2, .cp = 2, .dp = 4, .pp = 2, .etp = 1, .ep = 8};

std::vector<std::int64_t> group(Kind kind, std::int64_t rank) {
  return Grid(kSizes).group_of(kind, RankOrder::stages_last, rank);
}

TEST(Grid, FormsMegatronsGroups) {
  const Grid grid(kSizes);
  EXPECT_EQ(grid.world(), 32);
  EXPECT_THAT(group(Kind::tensor, 0), ElementsAre(0, 1));
  EXPECT_THAT(group(Kind::context, 0), ElementsAre(0, 2));
  EXPECT_THAT(group(Kind::data, 0), ElementsAre(0, 4, 8, 12));
  EXPECT_THAT(group(Kind::dense, 0), ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
  EXPECT_THAT(group(Kind::expert, 0), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(group(Kind::tensor_expert, 0), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(group(Kind::expert_tensor, 0), ElementsAre(0));
  EXPECT_THAT(group(Kind::expert_data, 0), ElementsAre(0, 8));
  EXPECT_THAT(group(Kind::pipeline, 0), ElementsAre(0, 16));
  EXPECT_EQ(grid.count(Kind::tensor), 16);
  EXPECT_EQ(grid.count(Kind::expert), 4);
  EXPECT_EQ(grid.count(Kind::pipeline), 16);
}

TEST(Grid, ReadsARankTwice) {
  const Grid grid(kSizes);
  const StageRank place = grid.place_of(RankOrder::stages_last, 21);
  EXPECT_EQ(place, (StageRank{1, 5}));
  const Coordinates at = grid.coordinates(place);
  EXPECT_EQ(at.tensor, 1);
  EXPECT_EQ(at.context, 0);
  EXPECT_EQ(at.data, 1);
  EXPECT_EQ(at.expert_tensor, 0);
  EXPECT_EQ(at.expert, 5);
  EXPECT_EQ(at.expert_data, 0);
  EXPECT_EQ(at.stage, 1);
  EXPECT_THAT(group(Kind::tensor, 21), ElementsAre(20, 21));
  EXPECT_THAT(group(Kind::context, 21), ElementsAre(21, 23));
  EXPECT_THAT(group(Kind::dense, 21), ElementsAre(17, 19, 21, 23, 25, 27, 29, 31));
  EXPECT_THAT(group(Kind::expert_data, 21), ElementsAre(21, 29));
}

TEST(Grid, LetsExpertGroupsCutTensorGroups) {
  // ETP·EP = 3 is no multiple of TP = 2: ranks 0, 1, 2 hold the experts, and rank 3 is rank 2's tensor partner.
  const Grid grid(GridSizes{.tp = 2, .dp = 3, .etp = 1, .ep = 3});
  EXPECT_THAT(grid.group_of(Kind::expert, RankOrder::stages_last, 4), ElementsAre(3, 4, 5));
  EXPECT_THAT(grid.group_of(Kind::expert_data, RankOrder::stages_last, 4), ElementsAre(1, 4));
  EXPECT_THAT(grid.group_of(Kind::tensor, RankOrder::stages_last, 3), ElementsAre(2, 3));
}

TEST(Grid, NumbersStagesInsideReplicas) {
  // tp-cp-ep-pp-dp: rank = t + 2 (p + 3 d).
  const Grid grid(GridSizes{.tp = 2, .dp = 2, .pp = 3, .etp = 2});
  EXPECT_EQ(grid.place_of(RankOrder::replicas_last, 9), (StageRank{1, 3}));
  EXPECT_EQ(grid.rank_of(RankOrder::replicas_last, {1, 3}), 9);
  EXPECT_THAT(grid.group_of(Kind::pipeline, RankOrder::replicas_last, 9), ElementsAre(7, 9, 11));
  EXPECT_THAT(grid.group_of(Kind::dense, RankOrder::replicas_last, 9), ElementsAre(3, 9));
}

TEST(Grid, RefusesWhatFrameworksRefuse) {
  EXPECT_EQ(refuse(kSizes, RankOrder::stages_last), "");
  EXPECT_THAT(refuse(kSizes, RankOrder::replicas_last), HasSubstr("etp·ep = 8 equal to tp·cp = 4"));
  GridSizes sizes = kSizes;
  sizes.ep = 32;
  EXPECT_THAT(refuse(sizes, RankOrder::stages_last), HasSubstr("does not divide the 16 ranks of a stage"));
  sizes.ep = 4;
  EXPECT_EQ(refuse(sizes, RankOrder::replicas_last), "");
  sizes.etp = 3;
  EXPECT_THAT(refuse(sizes, RankOrder::stages_last), HasSubstr("etp·ep = 3·4"));
  sizes = kSizes;
  sizes.cp = 0;
  EXPECT_THAT(refuse(sizes, RankOrder::stages_last), HasSubstr("cp=0"));
  // Optimizer instances divide dp·cp = 8 and edp = 2.
  EXPECT_EQ(refuse(kSizes, RankOrder::stages_last, 2), "");
  EXPECT_THAT(refuse(kSizes, RankOrder::stages_last, 4),
              HasSubstr("4 instances of the optimizer do not divide edp = 2"));
  EXPECT_THAT(refuse(kSizes, RankOrder::stages_last, 3), HasSubstr("do not divide dp·cp = 8"));
  // One stage may be numbered either way.
  sizes = kSizes;
  sizes.pp = 1;
  EXPECT_EQ(refuse(sizes, RankOrder::replicas_last), "");
}

TEST(Grid, StrategiesAreMegatronsGrids) {
  Strategy strategy;
  strategy.split = {.tp = 2, .sp = true, .cp = 2, .ep = 8, .etp = 1};
  strategy.pp = 2;
  strategy.dp = strategy.dp_inner = 4;
  EXPECT_EQ(strategy.edp(), 2);
  EXPECT_EQ(strategy.split.team(), 2);
  EXPECT_EQ(strategy.split.team_devices(), 8);
  const Grid mine(strategy), megatron(kSizes);
  for (const Kind kind : kKinds) {
    for (std::int64_t rank = 0; rank < 32; ++rank) {
      EXPECT_EQ(mine.group_of(kind, RankOrder::stages_last, rank), group(kind, rank));
    }
  }
  EXPECT_EQ(mine.size(Kind::expert_data), 2);
  EXPECT_EQ(mine.coordinates({1, 5}).expert, 5);
}

// All ranks by the naive formula: a group is everyone with the same other coordinates.
using Key = std::array<std::int64_t, 4>;

TEST(Grid, GroupsAreThoseOfTheNaiveFormula) {
  std::mt19937 random(11);
  const auto upto = [&](std::int64_t most) { return 1 + static_cast<std::int64_t>(random()) % most; };
  int cutting = 0;
  for (int i = 0; i < 2000; ++i) {
    GridSizes sizes{.tp = upto(4), .cp = upto(3), .dp = upto(6), .pp = upto(3), .etp = upto(3), .ep = upto(6)};
    if (!refuse(sizes, RankOrder::stages_last).empty()) {
      --i;
      continue;
    }
    cutting += sizes.etp * sizes.ep % sizes.tp != 0;
    const Grid grid(sizes);
    const RankOrder order = random() % 2 == 0 && refuse(sizes, RankOrder::replicas_last).empty()
                                ? RankOrder::replicas_last
                                : RankOrder::stages_last;
    const std::int64_t edp = sizes.tp * sizes.cp * sizes.dp / (sizes.etp * sizes.ep);
    std::array<std::map<Key, std::vector<std::int64_t>>, kKinds.size()> naive;
    std::vector<std::array<Key, kKinds.size()>> keys;
    for (std::int64_t rank = 0; rank < grid.world(); ++rank) {
      const std::int64_t t = rank % sizes.tp, c = rank / sizes.tp % sizes.cp, rest = rank / (sizes.tp * sizes.cp);
      const bool last = order == RankOrder::stages_last;
      const std::int64_t d = last ? rest % sizes.dp : rest / sizes.pp, p = last ? rest / sizes.dp : rest % sizes.pp;
      const std::int64_t x = rank % sizes.etp, e = rank / sizes.etp % sizes.ep, over = rank / (sizes.etp * sizes.ep);
      const std::int64_t f = last ? over % edp : over / sizes.pp;
      keys.push_back({Key{p, c, d}, {p, t, d}, {p, t, c}, {p, t}, {p, x, f}, {p, f}, {p, e, f}, {p, x, e}, {t, c, d}});
      for (std::size_t k = 0; k < kKinds.size(); ++k) naive[k][keys.back()[k]].push_back(rank);
    }
    for (std::size_t k = 0; k < kKinds.size(); ++k) {
      ASSERT_EQ(grid.count(kKinds[k]), static_cast<std::int64_t>(naive[k].size()));
      for (std::int64_t rank = 0; rank < grid.world(); rank += 1 + static_cast<std::int64_t>(random() % 3)) {
        ASSERT_EQ(grid.group_of(kKinds[k], order, rank), naive[k][keys[static_cast<std::size_t>(rank)][k]])
            << "kind " << k << " rank " << rank << " tp " << sizes.tp << " cp " << sizes.cp << " dp " << sizes.dp
            << " pp " << sizes.pp << " etp " << sizes.etp << " ep " << sizes.ep << " " << to_string(order);
      }
    }
  }
  EXPECT_GT(cutting, 100);
}

}  // namespace
}  // namespace nest::groups
