#include "simulation_check/regret_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cost/evaluate.h"
#include "simulation_check/networks.h"
#include "simulation_check/random_plan.h"

namespace nest {
namespace {

std::vector<RegretCase> small_grid() { return regret_grid({"llama3-8b", "gpt3-35b"}, {16, 64}, {4, 1}); }

TEST(RegretCases, EveryNetworkOncePerRound) {
  const std::vector<RegretCase> grid = small_grid(), order = drawn(grid, 1);
  ASSERT_EQ(order.size(), grid.size());
  EXPECT_TRUE(std::is_permutation(order.begin(), order.end(), grid.begin()));
  std::set<std::string> names, first;
  for (const RegretCase& each : grid) names.insert(each.network);
  for (std::size_t k = 0; k < names.size(); ++k) first.insert(order[k].network);
  EXPECT_EQ(first, names);
  EXPECT_EQ(drawn(grid, 1), order);
  EXPECT_NE(drawn(grid, 2), order);
}

TEST(RegretCases, CoverEveryNetworkThatComesInTheSize) {
  const std::vector<RegretCase> grid = small_grid();
  std::set<std::string> ids;
  for (const RegretCase& each : grid) EXPECT_TRUE(ids.insert(each.id()).second) << each.id();
  EXPECT_TRUE(ids.contains("64 x h100-up25-o8, llama3-8b, batch 512")) << grid.front().id();
  EXPECT_TRUE(ids.contains("64 x h100-up25-o8, llama3-8b, batch 128"));
}

TEST(RegretCases, NeighboursAreSoundAndFit) {
  std::size_t found = 0;
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    const RandomPlan from = random_plan(seed, DrawnFrom::slow);
    const std::vector<Plan> others = neighbours(from.job, from.evaluation, 5, seed);
    found += others.size();
    for (const Plan& other : others) {
      EXPECT_TRUE(other.fits);
      EXPECT_EQ(cost::refuse_strategy(from.job, other.strategy, other.stages), "");
    }
  }
  EXPECT_GT(found, 10U);
}

}  // namespace
}  // namespace nest
