#include "rivals/alpa_ilp.h"

#ifdef NEST_HAS_CBC
#include <coin/Cbc_C_Interface.h>
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/index.h"

namespace nest::rivals {
namespace {

double edge_cost(const IlpProblem& problem, const IlpEdge& edge, int i, int j) {
  return edge.cost[at(i) * problem.nodes[at(edge.to)].cost.size() + at(j)];
}

}  // namespace

double ilp_cost(const IlpProblem& problem, const std::vector<int>& choice) {
  double cost = 0;
  for (std::size_t v = 0; v < problem.nodes.size(); ++v) cost += problem.nodes[v].cost[at(choice[v])];
  for (const IlpEdge& edge : problem.edges) {
    cost += edge_cost(problem, edge, choice[at(edge.from)], choice[at(edge.to)]);
  }
  return cost;
}

#ifdef NEST_HAS_CBC
namespace {

// The program as CBC takes it: a matrix by columns.
class Columns {
 public:
  explicit Columns(const IlpProblem& problem) : problem_(problem) {
    std::size_t first = 0;
    for (const IlpNode& node : problem.nodes) {
      NEST_CHECK(!node.cost.empty(), "every node of the program has a strategy");
      first_.push_back(first);
      first += node.cost.size();
    }
    number_rows();
    scale();
    for (std::size_t v = 0; v < problem.nodes.size(); ++v) add_node(v);
    for (std::size_t e = 0; e < problem.edges.size(); ++e) add_edge(e);
  }

  std::size_t first_column(std::size_t node) const { return first_[node]; }
  std::size_t binaries() const { return first_.back() + problem_.nodes.back().cost.size(); }

  void load(Cbc_Model* model) const {
    Cbc_loadProblem(model, static_cast<int>(objective_.size()), static_cast<int>(bounds_.size()), starts_.data(),
                    rows_.data(), values_.data(), lower_.data(), upper_.data(), objective_.data(), bounds_.data(),
                    bounds_.data());
    for (std::size_t k = 0; k < binaries(); ++k) Cbc_setInteger(model, static_cast<int>(k));
  }

 private:
  // One row per node, then per edge one for every strategy of either end.
  void number_rows() {
    bounds_.assign(problem_.nodes.size(), 1.0);
    ends_.resize(problem_.nodes.size());
    for (const IlpEdge& edge : problem_.edges) {
      const std::size_t from = problem_.nodes[at(edge.from)].cost.size(), to = problem_.nodes[at(edge.to)].cost.size();
      NEST_CHECK(edge.from != edge.to && edge.cost.size() == from * to,
                 "an edge joins two nodes, strategy by strategy");
      edge_rows_.push_back(static_cast<int>(bounds_.size()));
      ends_[at(edge.from)].push_back(static_cast<int>(bounds_.size()));
      ends_[at(edge.to)].push_back(static_cast<int>(bounds_.size() + from));
      bounds_.resize(bounds_.size() + from + to, 0.0);
    }
  }

  // CBC's tolerances are absolute: the largest coefficient becomes kLargest.
  void scale() {
    constexpr double kLargest = 1e6;
    double largest = 0;
    const auto look = [&](double cost) {
      NEST_CHECK(cost >= 0, "costs of the program are not negative");
      if (std::isfinite(cost)) largest = std::max(largest, cost);
    };
    for (const IlpNode& node : problem_.nodes) std::for_each(node.cost.begin(), node.cost.end(), look);
    for (const IlpEdge& edge : problem_.edges) std::for_each(edge.cost.begin(), edge.cost.end(), look);
    if (largest > 0) scale_ = kLargest / largest;
  }

  void add_column(double cost) {
    const bool open = std::isfinite(cost);
    objective_.push_back(open ? cost * scale_ : 0);
    lower_.push_back(0);
    upper_.push_back(open ? 1 : 0);
    starts_.push_back(static_cast<int>(rows_.size()));
  }

  void add_entry(int row, double value) {
    rows_.push_back(row);
    values_.push_back(value);
    starts_.back() = static_cast<int>(rows_.size());
  }

  void add_node(std::size_t v) {
    for (std::size_t i = 0; i < problem_.nodes[v].cost.size(); ++i) {
      add_column(problem_.nodes[v].cost[i]);
      add_entry(static_cast<int>(v), 1);
      for (const int row : ends_[v]) add_entry(row + static_cast<int>(i), -1);
    }
  }

  void add_edge(std::size_t e) {
    const IlpEdge& edge = problem_.edges[e];
    const std::size_t from = problem_.nodes[at(edge.from)].cost.size(), to = problem_.nodes[at(edge.to)].cost.size();
    for (std::size_t i = 0; i < from; ++i) {
      for (std::size_t j = 0; j < to; ++j) {
        add_column(edge.cost[i * to + j]);
        add_entry(edge_rows_[e] + static_cast<int>(i), 1);
        add_entry(edge_rows_[e] + static_cast<int>(from + j), 1);
      }
    }
  }

  const IlpProblem& problem_;
  double scale_ = 1;
  std::vector<std::size_t> first_;        // column of a node's first strategy
  std::vector<std::vector<int>> ends_;    // of a node: rows of its strategies in every edge it has
  std::vector<int> edge_rows_;            // first row of an edge
  std::vector<int> starts_ = {0}, rows_;  // starts_: where a column ends; the first begins at 0
  std::vector<double> values_, lower_, upper_, objective_, bounds_;
};

// CBC keeps the parameters of a solve in variables of its own that all threads share.
std::mutex& solver_mutex() {
  static std::mutex mutex;
  return mutex;
}

struct DeleteModel {
  void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
};

}  // namespace

bool has_ilp_solver() { return true; }

IlpAnswer solve_ilp(const IlpProblem& problem, double time_limit_s) {
  IlpSolution solution;
  if (problem.nodes.empty()) return {solution, true};
  const Columns columns(problem);
  const std::lock_guard alone(solver_mutex());
  const std::unique_ptr<Cbc_Model, DeleteModel> model(Cbc_newModel());
  Cbc_setLogLevel(model.get(), 0);
  columns.load(model.get());
  // A proof, not a solution that is good enough: the default gap and the step by which solutions must improve are
  // absolute.
  Cbc_setAllowableGap(model.get(), 0);
  Cbc_setParameter(model.get(), "increment", "1e-9");
  if (time_limit_s > 0) {
    Cbc_setParameter(model.get(), "timeMode", "elapsed");  // unless told it counts the processor time of all threads
    Cbc_setMaximumSeconds(model.get(), time_limit_s);
  }
  Cbc_solve(model.get());
  const bool optimal = Cbc_isProvenOptimal(model.get()) != 0;
  if (Cbc_isProvenInfeasible(model.get()) != 0) return {std::nullopt, true};
  if (!optimal && Cbc_numberSavedSolutions(model.get()) == 0) return {std::nullopt, false};
  const double* const values = optimal ? Cbc_getColSolution(model.get()) : Cbc_bestSolution(model.get());
  for (std::size_t v = 0; v < problem.nodes.size(); ++v) {
    const double* const first = values + columns.first_column(v);
    solution.choice.push_back(static_cast<int>(std::max_element(first, first + problem.nodes[v].cost.size()) - first));
  }
  solution.cost = ilp_cost(problem, solution.choice);
  if (!std::isfinite(solution.cost)) return {std::nullopt, optimal};
  return {solution, optimal};
}

#else

bool has_ilp_solver() { return false; }

IlpAnswer solve_ilp(const IlpProblem& /*problem*/, double /*time_limit_s*/) { return {}; }

#endif

}  // namespace nest::rivals
