// The integer program of Alpa's intra-operator pass (Zheng et al., "Alpa: Automating Inter- and Intra-Operator
// Parallelism for Distributed Deep Learning", OSDI 2022, section 4.2).
//
// Every operator v takes one of its strategies; a strategy costs c_v (what it computes and exchanges), and an edge
// (v, u) costs R_vu[i, j] (resharding) when v takes i and u takes j:
//     min  sum_v s_v . c_v  +  sum_(v,u) sum_ij e_vu[i, j] R_vu[i, j]
//     s_v binary, sum_i s_v[i] = 1;    e_vu >= 0, sum_j e_vu[i, j] = s_v[i], sum_i e_vu[i, j] = s_u[j]
// The edge variables linearise the product s_v[i] s_u[j]; with both marginals given they are integral wherever the s
// are, so only the s are declared integer. Solved by COIN-OR CBC through its C interface, where the build has it.
#pragma once

#include <optional>
#include <vector>

namespace nest::rivals {

// Costs are finite and >= 0, or infinity: not to be chosen.
struct IlpNode {
  std::vector<double> cost;  // one per strategy, at least one
};

struct IlpEdge {
  int from = 0;  // nodes, different ones
  int to = 0;
  std::vector<double> cost;  // [strategy of from][strategy of to], row by row
};

struct IlpProblem {
  std::vector<IlpNode> nodes;
  std::vector<IlpEdge> edges;  // several between two nodes add up
};

struct IlpSolution {
  std::vector<int> choice;  // a strategy for every node
  double cost = 0;
};

// The objective, in the order of nodes and edges.
double ilp_cost(const IlpProblem& problem, const std::vector<int>& choice);

// Whether the build has a solver.
bool has_ilp_solver();

struct IlpAnswer {
  std::optional<IlpSolution> solution;  // the best found; nothing costs less than infinity, or nothing was found
  bool proven = false;                  // optimal, or that there is none
};

// `time_limit_s`: of wall time, 0: none. One program is solved at a time; others wait, which is not counted. Without a
// solver nothing is found.
IlpAnswer solve_ilp(const IlpProblem& problem, double time_limit_s = 0);

}  // namespace nest::rivals
