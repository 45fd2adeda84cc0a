// Predictions against simulations: one row per plan, and what they amount to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nest/simulate.h"
#include "simulate/summary.h"
#include "simulation_check/random_plan.h"

namespace nest {

struct ComparedPlan {
  std::uint32_t seed = 0;
  DrawnFrom from = DrawnFrom::presets;
  std::string cluster;
  std::int64_t devices = 0;
  std::string model;
  std::string stack;
  std::string strategy;
  int zero = 0;
  std::int64_t dp_inner = 1;
  std::int64_t micro_batches = 1;
  std::int64_t replicas_simulated = 1;
  bool mixture = false;
  simulate::SimulationSummary summary;  // the formula's prediction beside one execution
  double told_s = 0;  // what `nest eval` tells: the formula's, or where it is wrong that of executions

  double told_difference() const { return told_s > 0 ? summary.iteration_s / told_s - 1 : 0; }
};

ComparedPlan compare(const RandomPlan& plan, SimulationEngine engine);

// One case of the other question: does the plan that the search prefers stay the best when its runners-up are
// simulated too?
struct TopCase {
  DrawnFrom from = DrawnFrom::presets;
  std::string cluster;
  std::int64_t devices = 0;
  std::string model;
  std::int64_t global_batch = 0;
  std::int64_t plans = 0;  // simulated; 0: none fits
  double predicted_s = 0;  // of the first
  double simulated_s = 0;
  double told_s = 0;       // as ComparedPlan
  double best_s = 0;       // of all, simulated
  std::int64_t best = 0;   // its place in the search's order, from 0
  double runner_up_s = 0;  // predicted, of that one
  std::string strategy;
  std::string best_strategy;

  double difference() const { return predicted_s > 0 ? simulated_s / predicted_s - 1 : 0; }
  double told_difference() const { return told_s > 0 ? simulated_s / told_s - 1 : 0; }
  double loss() const { return best_s > 0 ? simulated_s / best_s - 1 : 0; }
};

// Cases on every preset cluster and every slow network, small and large, dense models and mixtures.
std::vector<TopCase> top_cases();
// Searches, simulates the best `plans`, and fills in the rest.
void settle(TopCase& question, int plans, SimulationEngine engine);

}  // namespace nest
