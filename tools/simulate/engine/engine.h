// Executes a program with SimGrid.
#pragma once

#include "simulate/program.h"

namespace nest {

// Once per process: SimGrid's engine is a singleton. Throws InputError when activities wait for each other in a circle.
simulate::Timeline execute(const simulate::SimulationProgram& program);

}  // namespace nest
