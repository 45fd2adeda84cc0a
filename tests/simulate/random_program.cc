#include "random_program.h"

#include <random>

namespace nest::test {

simulate::SimulationProgram random_program(std::uint32_t seed) {
  std::mt19937 dice(seed);
  const auto below = [&](std::uint32_t count) { return static_cast<std::int32_t>(dice() % count); };
  simulate::SimulationProgram program;
  const std::int32_t links = 2 + below(6);
  for (std::int32_t l = 0; l < links; ++l) program.links.push_back({"link", 1e9 * (1 + below(100)), 1, 1});
  const std::int32_t routes = 2 + below(8);
  for (std::int32_t r = 0; r < routes; ++r) {
    simulate::SimulatedRoute& route = program.routes.emplace_back();
    for (std::int32_t l = 0; l < links; ++l) {
      if (below(3) == 0 || l == r % links) route.loads.push_back({l, 1 + below(4)});
    }
  }
  for (std::int32_t i = 0; i < 80; ++i) {
    simulate::SimulatedActivity& activity = program.activities.emplace_back();
    const std::int32_t kind = below(5);
    if (kind == 0) activity.seconds = 1e-4 * (1 + below(1000));
    for (std::int32_t f = 0; f < kind / 2; ++f) {
      activity.flows.push_back({below(static_cast<std::uint32_t>(routes)), below(2) * 1e-5, 1e6 * (1 + below(500))});
    }
    for (std::int32_t k = 0; k < below(3) && i > 0; ++k) activity.after.push_back(below(static_cast<std::uint32_t>(i)));
  }
  return program;
}

}  // namespace nest::test
