#include "model/linearise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/error.h"

namespace nest {
namespace {

TEST(Linearise, KeepsAnOrderThatAlreadyWorks) {
  const std::vector<Edge> edges = {{0, {1}, 4, 2}, {1, {2, 3}, 4, 2}, {2, {3}, 4, 2}};
  EXPECT_EQ(topological_order(4, edges), (std::vector<int>{0, 1, 2, 3}));
}

TEST(Linearise, OrdersAnyGraph) {
  const std::vector<Edge> edges = {{3, {0}, 1, 2}, {0, {2}, 1, 2}, {1, {2}, 1, 2}};
  EXPECT_EQ(topological_order(4, edges), (std::vector<int>{1, 3, 0, 2}));
}

TEST(Linearise, RefusesCyclesAndUnknownLayers) {
  EXPECT_THROW(topological_order(2, std::vector<Edge>{{0, {1}, 1, 2}, {1, {0}, 1, 2}}), InputError);
  EXPECT_THROW(topological_order(2, std::vector<Edge>{{0, {0}, 1, 2}}), InputError);
  EXPECT_THROW(topological_order(2, std::vector<Edge>{{0, {2}, 1, 2}}), InputError);
}

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
    std::vector<int> names(static_cast<std::size_t>(layers));
    for (int i = 0; i < layers; ++i) names[static_cast<std::size_t>(i)] = i;
    std::shuffle(names.begin(), names.end(), random);
    std::vector<Edge> edges;
    for (int a = 0; a < layers; ++a) {
      Edge edge{names[static_cast<std::size_t>(a)], {}, 1, 2};
      for (int b = a + 1; b < layers; ++b) {
        if (random() % 3 == 0) edge.to.push_back(names[static_cast<std::size_t>(b)]);
      }
      if (!edge.to.empty()) edges.push_back(edge);
    }
    const std::vector<int> order = topological_order(layers, edges);
    ASSERT_EQ(std::set<int>(order.begin(), order.end()).size(), static_cast<std::size_t>(layers));
    std::vector<int> position(static_cast<std::size_t>(layers));
    for (int i = 0; i < layers; ++i) position[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = i;
    std::vector<Edge> placed = edges;
    for (Edge& edge : placed) {
      edge.from = position[static_cast<std::size_t>(edge.from)];
      for (int& to : edge.to) {
        to = position[static_cast<std::size_t>(to)];
        ASSERT_LT(edge.from, to);
      }
    }
    const auto crossing = crossing_edges(layers, placed);
    for (int cut = 0; cut + 1 < layers; ++cut) {
      std::vector<int> expected;
      for (std::size_t e = 0; e < placed.size(); ++e) {
        const bool needed_later =
            std::any_of(placed[e].to.begin(), placed[e].to.end(), [cut](int to) { return to > cut; });
        if (placed[e].from <= cut && needed_later) expected.push_back(static_cast<int>(e));
      }
      ASSERT_EQ(crossing[static_cast<std::size_t>(cut)], expected);
    }
  }
}

TEST(Linearise, FindsRuns) {
  const auto runs = find_runs(std::vector<int>{0, 1, 1, 1, 2, 1});
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_EQ(runs[1].first, 1);
  EXPECT_EQ(runs[1].count, 3);
  EXPECT_EQ(runs[3].kind, 1);
}

}  // namespace
}  // namespace nest
