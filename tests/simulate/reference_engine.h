// A second engine for programs, written for clarity: after every event the max-min fair rates are worked out from
// scratch. Quadratic; for tests.
#pragma once

#include "simulate/program.h"

namespace nest::test {

simulate::Timeline reference_execute(const simulate::SimulationProgram& program);

}  // namespace nest::test

// Skips the running test, saying so, where nest-simulate was not built.
#ifdef NEST_SIMULATE_PROGRAM
#define NEST_REQUIRE_SIMGRID() static_cast<void>(0)
#else
#define NEST_SIMULATE_PROGRAM ""
#define NEST_REQUIRE_SIMGRID() GTEST_SKIP() << "nest-simulate was not built: SimGrid is not installed (libsimgrid-dev)"
#endif
