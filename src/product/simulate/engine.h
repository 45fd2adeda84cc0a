// Executes a program (program.h) event by event, in this process.
//
// Between two events every flow moves at its max-min fair rate (fair_share.h); an event is the end of a delay, of a
// latency or of a flow. Nothing is stepped over: times are exact but for rounding, about 1e-15 of the time so far per
// event, and the same for the same program on every run. What SimGrid finds is the same (tests/simulate) wherever
// rounding does not grow: a contended pipeline that goes round and round can amplify it (docs/simulation.md).
// O(events · (log events + what fair_share.h works out again)).
#pragma once

#include <atomic>
#include <chrono>
#include <limits>

#include "simulate/program.h"

namespace nest::simulate {

inline constexpr const char* kOwnEngine = "nest";  // Timeline::engine

struct EngineLimits {
  double seconds = std::numeric_limits<double>::infinity();
  const std::atomic<bool>* stop = nullptr;  // becomes true: execution is given up
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();  // of all executions
};

// The program must be sound (refuse_program). Throws InputError when activities wait for each other in a circle,
// SimulatorError when a limit ends it.
Timeline execute(const SimulationProgram& program, const EngineLimits& limits = {});

}  // namespace nest::simulate
