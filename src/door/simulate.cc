#include "nest/simulate.h"

#include <fmt/format.h>

#include "base/error.h"
#include "door/option_checks.h"
#include "door/plan_reports.h"
#include "door/priced_plan.h"
#include "html/simulation_section.h"
#include "nest/option.h"
#include "report/simulate_report.h"
#include "simulate/trace.h"
#include "simulate_client/client.h"

namespace nest {

struct SimulatedPlan {
  PricedPlan priced;
  simulate::LoweredPlan lowered;
  simulate::Timeline timeline;
  report::SimulationReport report;
};

namespace {

void require_noise(double percent) {
  constexpr double kMost = 100 * simulate::kMostDeviation;
  if (percent >= 0 && percent <= kMost) return;
  throw InputError(fmt::format("{}: {} is no number of percent in 0 … {}", option("noise"), percent, kMost));
}

}  // namespace

Simulation simulate_plan(const Plan& plan, const SimulateOptions& options) {
  require_range("steps", options.steps, kSteps);
  require_seconds("time_limit", options.time_limit_s);
  require_given("runs", options.runs, kRuns);
  require_range("seed", options.seed, kSeeds);
  require_noise(options.noise_percent);
  auto simulated = std::make_shared<SimulatedPlan>();
  simulated->priced = price_plan(plan);
  const cost::Job& job = simulated->priced.job;
  const Plan& priced = simulated->priced.plan;
  simulated->lowered = simulate::lower_plan(job, priced.strategy, priced.stages, options.steps);
  SimulatorLimits limits;
  if (options.time_limit_s > 0) limits.seconds = options.time_limit_s;
  limits.stop = options.stop;
  const auto execute = [&](const simulate::SimulationProgram& program) {
    return execute_program(options.engine, program, limits);
  };
  simulated->timeline = execute(simulated->lowered.program);
  const simulate::SimulationSummary summary = summarise(simulated->lowered, simulated->timeline, priced.prediction);
  simulated->report = report::make_simulation_report(job.title, priced, simulated->lowered, summary);
  report::SimulationReport& report = simulated->report;
  if (options.runs > 0) {
    report.noise = {options.noise_percent / 100, static_cast<std::uint64_t>(options.seed)};
    // Every replica for itself, or none could drift from another.
    const simulate::LoweredPlan apart =
        simulate::lower_plan(job, priced.strategy, priced.stages, options.steps, simulate::Merge::inside_replicas);
    report.noisy = simulate::execute_noisy(apart, report.noise, options.runs, execute);
  }
  return {summary.iteration_s, summary.predicted_s, report.noisy.iteration_s, simulated};
}

std::string to_text(const Simulation& simulation, const Style& style) {
  return report::simulation_text(simulation.simulated->report, style);
}

std::string to_json(const Simulation& simulation) {
  return report::to_text(report::simulation_json(simulation.simulated->report));
}

// The page of the plan, with the simulation before all else.
std::string to_html(const Simulation& simulation, const ReportOptions& options) {
  html::PlanPage page;
  page.first = {html::simulation_section(simulation.simulated->report)};
  return plan_page_text(simulation.simulated->priced.plan, simulation.simulated->priced.job, options, std::move(page));
}

std::string to_trace(const Simulation& simulation) {
  const SimulatedPlan& simulated = *simulation.simulated;
  return simulate::chrome_trace(simulated.lowered, simulated.timeline, simulated.priced.job.title);
}

}  // namespace nest
