// The integer program against every choice there is.
#include "rivals/alpa_ilp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace nest::rivals {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}
  int below(int count) { return static_cast<int>(random_() % static_cast<std::uint32_t>(count)); }
  double unit() { return static_cast<double>(random_()) * 0x1p-32; }

 private:
  std::mt19937 random_;
};

// Costs as resharding has them: many zeros, many equal ones, spread over orders of magnitude, some not to be chosen.
double random_cost(Dice& dice, double forbidden) {
  if (dice.unit() < forbidden) return kInfinity;
  switch (dice.below(4)) {
    case 0: return 0;
    case 1: return 1e-4 * (1 + dice.below(3));
    case 2: return 1e-3 * dice.unit();
    default: return std::pow(10.0, -6 + 5 * dice.unit());
  }
}

IlpProblem random_problem(std::uint32_t seed) {
  Dice dice(seed);
  IlpProblem problem;
  const double forbidden = dice.below(3) == 0 ? 0.2 : 0;
  const int nodes = 1 + dice.below(6);
  for (int v = 0; v < nodes; ++v) {
    IlpNode node;
    const int strategies = 1 + dice.below(4);
    for (int i = 0; i < strategies; ++i) node.cost.push_back(random_cost(dice, forbidden));
    problem.nodes.push_back(node);
  }
  const int edges = nodes == 1 ? 0 : dice.below(2 * nodes);
  for (int e = 0; e < edges; ++e) {
    IlpEdge edge;
    edge.from = dice.below(nodes);
    edge.to = (edge.from + 1 + dice.below(nodes - 1)) % nodes;
    const std::size_t pairs = problem.nodes[static_cast<std::size_t>(edge.from)].cost.size() *
                              problem.nodes[static_cast<std::size_t>(edge.to)].cost.size();
    for (std::size_t k = 0; k < pairs; ++k) edge.cost.push_back(random_cost(dice, forbidden));
    problem.edges.push_back(edge);
  }
  return problem;
}

double least_cost(const IlpProblem& problem) {
  std::vector<int> choice(problem.nodes.size(), 0);
  double least = kInfinity;
  while (true) {
    least = std::min(least, ilp_cost(problem, choice));
    std::size_t v = 0;
    while (v < choice.size() && ++choice[v] == static_cast<int>(problem.nodes[v].cost.size())) choice[v++] = 0;
    if (v == choice.size()) return least;
  }
}

TEST(AlpaIlp, CostsWhatNodesAndEdgesCost) {
  IlpProblem problem;
  problem.nodes = {{{1, 2}}, {{4, 8, 16}}};
  problem.edges = {{0, 1, {100, 200, 300, 400, 500, 600}}};
  EXPECT_EQ(ilp_cost(problem, {0, 2}), 1 + 16 + 300);
  EXPECT_EQ(ilp_cost(problem, {1, 0}), 2 + 4 + 400);
}

TEST(AlpaIlp, PaysForAnEdgeWhereThatIsCheaper) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without an ILP solver";
  IlpProblem problem;
  problem.nodes = {{{0, 5}}, {{5, 0}}};
  problem.edges = {{0, 1, {0, 3, 3, 0}}};
  const auto solution = solve_ilp(problem).solution;
  ASSERT_TRUE(solution);
  EXPECT_EQ(solution->choice, (std::vector<int>{0, 1}));
  EXPECT_EQ(solution->cost, 3);
}

TEST(AlpaIlp, FindsNothingWhereNothingIsAdmitted) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without an ILP solver";
  IlpProblem problem;
  problem.nodes = {{{0, 1}}, {{0}}};
  problem.edges = {{0, 1, {kInfinity, kInfinity}}};
  const IlpAnswer answer = solve_ilp(problem);
  EXPECT_FALSE(answer.solution);
  EXPECT_TRUE(answer.proven);
}

TEST(AlpaIlp, EqualsBruteForce) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without an ILP solver";
  int solved = 0;
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    const IlpProblem problem = random_problem(seed);
    const double least = least_cost(problem);
    const IlpAnswer answer = solve_ilp(problem);
    const auto& solution = answer.solution;
    ASSERT_TRUE(answer.proven) << "seed " << seed;
    ASSERT_EQ(solution.has_value(), std::isfinite(least)) << "seed " << seed;
    if (!solution) continue;
    ++solved;
    ASSERT_EQ(solution->cost, ilp_cost(problem, solution->choice)) << "seed " << seed;
    ASSERT_LE(solution->cost, least * (1 + 1e-9)) << "seed " << seed;
    ASSERT_GE(solution->cost, least * (1 - 1e-12)) << "seed " << seed;
  }
  EXPECT_GT(solved, 300);
}

TEST(AlpaIlp, AStoppedSolverSaysSo) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without an ILP solver";
  // A ring of many nodes with costs at random is not solved in no time.
  Dice dice(7);
  IlpProblem problem;
  constexpr int kNodes = 24, kStrategies = 6;
  for (int v = 0; v < kNodes; ++v) {
    IlpNode& node = problem.nodes.emplace_back();
    for (int i = 0; i < kStrategies; ++i) node.cost.push_back(dice.unit());
  }
  for (int e = 0; e < 4 * kNodes; ++e) {
    IlpEdge edge;
    edge.from = e % kNodes;
    edge.to = (edge.from + 1 + dice.below(kNodes - 1)) % kNodes;
    for (int k = 0; k < kStrategies * kStrategies; ++k) edge.cost.push_back(dice.unit());
    problem.edges.push_back(edge);
  }
  const IlpAnswer answer = solve_ilp(problem, 1e-3);
  EXPECT_FALSE(answer.proven);
  if (answer.solution) {
    EXPECT_EQ(answer.solution->cost, ilp_cost(problem, answer.solution->choice));
  }
}

}  // namespace
}  // namespace nest::rivals
