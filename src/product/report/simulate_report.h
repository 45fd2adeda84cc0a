// A simulated plan beside its prediction, for people and for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "report/json.h"
#include "report/style.h"
#include "simulate/noise.h"
#include "simulate/summary.h"

namespace nest::report {

struct SimulationReport {
  std::string title;  // of the model
  Plan plan;          // with the prediction
  simulate::SimulationSummary summary;
  // What was simulated for what.
  std::int64_t replica_classes = 1;
  std::int64_t links = 0;  // that the plan uses
  std::int64_t link_classes = 0;
  std::int64_t flows = 0;
  std::int64_t routes = 0;
  std::size_t activities = 0;
  std::int64_t steps = 1;
  std::vector<std::string> as_predicted;
  simulate::Noise noise;
  simulate::NoisySteps noisy;  // empty: not asked for
};

// "13.6 s ± 20 ms in 5 runs …", for text and page; empty where there were none.
std::string noisy_text(const SimulationReport& report);

SimulationReport make_simulation_report(std::string title, Plan plan, const simulate::LoweredPlan& lowered,
                                        simulate::SimulationSummary summary);

std::string simulation_text(const SimulationReport& report, const Style& style);
Json simulation_json(const SimulationReport& report);

}  // namespace nest::report
