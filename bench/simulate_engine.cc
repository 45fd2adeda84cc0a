// How long plans take to be lowered and executed: nest's own engine, and SimGrid where nest-simulate is built.
//
//   bench_simulate [--plans N] [--no-simgrid]
//
// Random plans of nest-simulation-check, seeds 0 … N-1 (120 unless said). Times of nest are the best of 5 in this process;
// SimGrid's are one call of nest-simulate, with its start and its documents, as `nest simulate --engine simgrid` pays
// them. Events are starts and ends of activities and flows: 2 per activity, 2 per flow.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "simulate/engine.h"
#include "simulate/lower.h"
#include "simulate_client/client.h"
#include "simulation_check/random_plan.h"

namespace {

constexpr int kRepeats = 5;

template <class Body>
double seconds_of(Body body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

void print(const char* what, const char* unit, const std::vector<double>& values, double scale) {
  if (values.empty()) return;
  fmt::print("{:<28} median {:>10.3f}  p90 {:>10.3f}  max {:>10.3f}  {}\n", what, scale * quantile(values, 0.5),
             scale * quantile(values, 0.9), scale * quantile(values, 1), unit);
}

struct Measured {
  std::vector<double> lower_s, own_s, simgrid_s, ratio, events_per_s, apart;
};

void measure(std::uint32_t seed, const std::string& simulator, Measured& all) {
  const nest::RandomPlan plan = nest::random_plan(seed);
  nest::simulate::LoweredPlan lowered;
  nest::simulate::Timeline timeline;
  double lower_s = 1e300, own_s = 1e300;
  for (int k = 0; k < kRepeats; ++k) {
    lower_s = std::min(lower_s,
                       seconds_of([&] { lowered = nest::simulate::lower_plan(plan.job, plan.strategy, plan.stages); }));
    own_s = std::min(own_s, seconds_of([&] { timeline = nest::simulate::execute(lowered.program); }));
  }
  std::size_t events = 0;
  for (const nest::simulate::SimulatedActivity& activity : lowered.program.activities) {
    events += 2 + 2 * activity.flows.size();
  }
  all.lower_s.push_back(lower_s);
  all.own_s.push_back(own_s);
  all.events_per_s.push_back(static_cast<double>(events) / own_s);
  if (simulator.empty()) return;
  nest::simulate::Timeline judge;
  all.simgrid_s.push_back(seconds_of([&] { judge = nest::run_simulator(simulator, lowered.program); }));
  all.ratio.push_back(all.simgrid_s.back() / own_s);
  all.apart.push_back(std::abs(judge.total_s / timeline.total_s - 1));
}

}  // namespace

int main(int argc, char** argv) {
  std::uint32_t plans = 120;
  bool simgrid = true;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--no-simgrid") simgrid = false;
    if (word == "--plans" && i + 1 < argc) plans = static_cast<std::uint32_t>(std::atoi(argv[++i]));
  }
  std::string simulator;
  try {
    if (simgrid) simulator = nest::find_simulator();
  } catch (const nest::SimulatorError& error) {
    fmt::print("{}\n", error.what());
  }
  Measured all;
  for (std::uint32_t seed = 0; seed < plans; ++seed) measure(seed, simulator, all);
  print("lowering", "ms", all.lower_s, 1e3);
  print("execution by nest", "ms", all.own_s, 1e3);
  print("events of it", "million per second", all.events_per_s, 1e-6);
  print("execution by SimGrid", "ms", all.simgrid_s, 1e3);
  print("SimGrid over nest", "times", all.ratio, 1);
  print("apart", "of the step, 1e-9", all.apart, 1e9);
  return 0;
}
