#include "base/stride.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace nest {
namespace {

using ::testing::ElementsAre;

TEST(Stride, ListsGroupsInRankOrder) {
  // Two axes of members (0, 2 and 0, 8), one of siblings (0, 1).
  const GroupSpec spec{16, {{8, 2}, {2, 2}}, {{1, 2}}};
  EXPECT_EQ(spec.size(), 4);
  EXPECT_EQ(spec.groups(), 2);
  EXPECT_THAT(list_groups(spec), ElementsAre(ElementsAre(16, 18, 24, 26), ElementsAre(17, 19, 25, 27)));
  EXPECT_EQ(last_of(spec.members), 10);
}

TEST(Stride, JoinsAxesThatContinueEachOther) {
  EXPECT_THAT(normalised({{6, 4}, {1, 1}, {2, 3}}), ElementsAre(Stride{2, 12}));
  EXPECT_THAT(normalised({{8, 4}, {2, 3}}), ElementsAre(Stride{2, 3}, Stride{8, 4}));
}

TEST(Stride, DividesTheInnermostMembersFromTheRest) {
  const Division cut = divide({{2, 6}, {24, 4}}, 3);
  EXPECT_TRUE(cut.even);
  EXPECT_THAT(cut.inside, ElementsAre(Stride{2, 3}));
  EXPECT_THAT(cut.outside, ElementsAre(Stride{6, 2}, Stride{24, 4}));
  const Division across = divide({{24, 4}, {2, 6}}, 12);
  EXPECT_TRUE(across.even);
  EXPECT_THAT(across.inside, ElementsAre(Stride{2, 6}, Stride{24, 2}));
  EXPECT_THAT(across.outside, ElementsAre(Stride{48, 2}));
  EXPECT_FALSE(divide({{2, 6}, {24, 4}}, 4).even);  // neither a part of 6 nor a multiple
  EXPECT_FALSE(divide({{2, 6}}, 12).even);
}

TEST(Stride, DivisionsPutTheMembersTogetherAgain) {
  std::mt19937 random(7);
  int even = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<Stride> axes;
    std::int64_t stride = 1;
    for (int k = 0; k < 3; ++k) {
      stride *= 1 + static_cast<std::int64_t>(random() % 3);
      const std::int64_t count = 1 + static_cast<std::int64_t>(random() % 6);
      axes.push_back({stride, count});
      stride *= count;
    }
    const std::int64_t degree = 1 + static_cast<std::int64_t>(random() % 24);
    const Division division = divide(axes, degree);
    if (!division.even) continue;
    ++even;
    ASSERT_EQ(size_of(division.inside), degree);
    const std::vector<std::int64_t> all = list_groups({0, axes, {}}).front();
    // The innermost `degree` members come first in rank order, and so on.
    std::vector<std::int64_t> parts;
    for (const auto& part : list_groups({0, division.inside, division.outside})) {
      parts.insert(parts.end(), part.begin(), part.end());
    }
    ASSERT_EQ(parts, all) << "degree " << degree;
  }
  EXPECT_GT(even, 300);
}

}  // namespace
}  // namespace nest
