// Runs nest-simulate: a process of its own that may die, hang or talk nonsense without harm to its caller.
#pragma once

#include <atomic>
#include <string>

#include "nest/simulate.h"
#include "simulate/program.h"

namespace nest {

// Path of the simulator: $NEST_SIMULATE, else beside the running program, else on the PATH. Throws SimulatorError that
// says what to install when there is none.
std::string find_simulator();

struct SimulatorLimits {
  double seconds = 600;
  std::size_t answer_bytes = std::size_t{1} << 30U;
  const std::atomic<bool>* stop = nullptr;  // becomes true: it is ended
};

// Executes the program and returns a timeline that fits it (refuse_timeline). Throws SimulatorError when the simulator
// cannot be started, is killed, fails, takes too long, or answers with anything else.
simulate::Timeline run_simulator(const std::string& simulator, const simulate::SimulationProgram& program,
                                 const SimulatorLimits& limits = {});

// The same on the engine of choice: nest's own needs no simulator (simulate/engine.h).
simulate::Timeline execute_program(SimulationEngine engine, const simulate::SimulationProgram& program,
                                   const SimulatorLimits& limits = {});

}  // namespace nest
