#include "model/linearise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace nest::model {
namespace {

// A skip connection crosses every cut between its ends, once, however many layers read it.
TEST(Linearise, CutsCarrySkipConnections) {
  const std::vector<Edge> edges = {{0, {1, 3, 4}, 1, 2}, {1, {2}, 1, 2}, {2, {3}, 1, 2}, {3, {4}, 1, 2}};
  const auto crossing = crossing_edges(5, edges);
  EXPECT_EQ(crossing, (std::vector<std::vector<int>>{{0}, {0, 1}, {0, 2}, {0, 3}}));
}

TEST(Linearise, RandomGraphsAgainstTheDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const int layers = 2 + static_cast<int>(random() % 8);
    std::vector<Edge> edges;
    for (int a = 0; a < layers; ++a) {
      Edge edge{a, {}, 1, 2};
      for (int b = a + 1; b < layers; ++b) {
        if (random() % 3 == 0) edge.to.push_back(b);
      }
      std::shuffle(edge.to.begin(), edge.to.end(), random);
      if (!edge.to.empty()) edges.push_back(edge);
    }
    const auto crossing = crossing_edges(layers, edges);
    for (int cut = 0; cut + 1 < layers; ++cut) {
      std::vector<int> expected;
      for (std::size_t e = 0; e < edges.size(); ++e) {
        const bool needed_later =
            std::any_of(edges[e].to.begin(), edges[e].to.end(), [cut](int to) { return to > cut; });
        if (edges[e].from <= cut && needed_later) expected.push_back(static_cast<int>(e));
      }
      ASSERT_EQ(crossing[static_cast<std::size_t>(cut)], expected);
    }
  }
}

TEST(Linearise, FindsRuns) {
  const auto stretches = find_stretches(std::vector<int>{0, 1, 1, 1, 2, 1});
  ASSERT_EQ(stretches.size(), 4U);
  EXPECT_EQ(stretches[1].first, 1);
  EXPECT_EQ(stretches[1].count, 3);
  EXPECT_EQ(stretches[3].kind, 1);
}

}  // namespace
}  // namespace nest::model
