// A plan executed event by event on the simulated network, beside its prediction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "nest/plan.h"
#include "nest/report.h"
#include "nest/strategy.h"

namespace nest {

// What executes: nest's own engine, in this process; or SimGrid, a judge that shares no code with it, by the program
// nest-simulate, which is built where SimGrid is installed.
enum class SimulationEngine : std::uint8_t { own, simgrid };
inline constexpr std::array kSimulationEngineWords = {Word<SimulationEngine>{SimulationEngine::own, "nest"},
                                                      Word<SimulationEngine>{SimulationEngine::simgrid, "simgrid"}};

// How a simulation failed or why it was ended, in one sentence; also that there is no SimGrid, with what to install.
class SimulatorError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// SimGrid's process could not be started: the system grants no process or no descriptor.
class SimulatorUnavailable : public SimulatorError {
 public:
  using SimulatorError::SimulatorError;
};

struct SimulateOptions {
  SimulationEngine engine = SimulationEngine::own;
  std::int64_t steps = 1;  // optimizer steps to execute
  // Besides, executions in which every pass of every replica takes a little more or less time than it should; 0: none.
  std::int64_t runs = 0;
  double noise_percent = 1;                 // standard deviation of a pass, 0 … 25
  std::int64_t seed = 1;                    // of the first such execution; the others follow
  double time_limit_s = 600;                // that one execution may take
  const std::atomic<bool>* stop = nullptr;  // becomes true: it is ended, with a SimulatorError
};

struct SimulatedPlan;  // internal

struct Simulation {
  double iteration_s = 0;  // mean of the steps, without noise
  double predicted_s = 0;
  std::vector<double> noisy_s = {};  // iteration_s of every execution with noise
  std::shared_ptr<const SimulatedPlan> simulated;
};

// Throws InputError when the plan cannot be priced or is too large to execute, SimulatorError.
Simulation simulate_plan(const Plan& plan, const SimulateOptions& options = {});

std::string to_text(const Simulation& simulation, const Style& style = Style());
std::string to_json(const Simulation& simulation);
std::string to_html(const Simulation& simulation, const ReportOptions& options = {});
// For Perfetto (ui.perfetto.dev) or chrome://tracing.
std::string to_trace(const Simulation& simulation);

}  // namespace nest
