// What a simulated step was spent on, beside the prediction, and why the two differ.
//
// Both are told from the stage that the prediction calls the slowest. Simulated: the sum of its passes, of the messages
// it waited for and of its exposed exchanges; the bubble is what else passes until the last backward of any stage ends;
// gradient exchange, optimizer and overhead come after that. The parts sum to the whole.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "simulate/contention.h"
#include "simulate/lower.h"

namespace nest::simulate {

inline constexpr std::size_t kSlices = 240;  // equal parts of a step over which a stage's use is told

struct StageUse {  // of one replica in one step, seconds
  double compute_s = 0;
  double message_s = 0;                     // waiting for messages that are under way
  double token_s = 0;                       // waiting for routed tokens
  double shard_s = 0;                       // waiting for exchanges of state
  double idle_s = 0;                        // until the last backward of any stage
  double end_s = 0;                         // of its last backward, from the start of the step
  std::array<double, kSlices> computing{};  // share of every slice of the step
  std::array<double, kSlices> waiting{};    // for messages and state
};

struct LinkUse {
  std::string name;
  double busy = 0;  // share of the step at full rate
  std::int64_t alike = 1;
  double bytes = 0;  // in one step
};

struct SimulationSummary {
  double iteration_s = 0;  // mean of the steps
  Prediction::Breakdown breakdown_s;
  double predicted_s = 0;
  Prediction::Breakdown predicted_breakdown_s;
  std::vector<StageUse> stages;         // of the replica that ends last
  std::vector<LinkUse> links;           // busiest first, those that carry anything
  std::vector<SlowedTransfers> slowed;  // by others on their links; the most lost first
  std::string cause;                    // where the two differ by more than kWorthSaying
  std::string engine;

  double difference() const { return predicted_s > 0 ? iteration_s / predicted_s - 1 : 0; }
};

inline constexpr double kWorthSaying = 0.05;

SimulationSummary summarise(const LoweredPlan& plan, const Timeline& timeline, const Prediction& prediction);

}  // namespace nest::simulate
