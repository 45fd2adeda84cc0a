// Programs drawn at random: links, routes and activities, many of which share.
#pragma once

#include <cstdint>

#include "simulate/program.h"

namespace nest::test {

// Deterministic in the seed.
simulate::SimulationProgram random_program(std::uint32_t seed);

}  // namespace nest::test
