#include "nest/simulate.h"

#include "door/option_checks.h"
#include "door/plan_reports.h"
#include "door/priced_plan.h"
#include "html/simulation_section.h"
#include "report/simulate_report.h"
#include "simulate/trace.h"
#include "simulate_client/client.h"

namespace nest {

struct SimulatedPlan {
  PricedPlan priced;
  LoweredPlan lowered;
  Timeline timeline;
  SimulationReport report;
};

Simulation simulate_plan(const Plan& plan, const SimulateOptions& options) {
  require_range("steps", options.steps, kSteps);
  require_seconds("time_limit", options.time_limit_s);
  auto simulated = std::make_shared<SimulatedPlan>();
  simulated->priced = price_plan(plan);
  const Job& job = simulated->priced.job;
  const Plan& priced = simulated->priced.plan;
  simulated->lowered = lower_plan(job, priced.strategy, priced.stages, options.steps);
  SimulatorLimits limits;
  if (options.time_limit_s > 0) limits.seconds = options.time_limit_s;
  limits.stop = options.stop;
  simulated->timeline = simulate(find_simulator(), simulated->lowered.program, limits);
  const SimulationSummary summary = summarise(simulated->lowered, simulated->timeline, priced.prediction);
  simulated->report = make_simulation_report(job.title, priced, simulated->lowered, summary);
  return {summary.iteration_s, summary.predicted_s, simulated};
}

std::string to_text(const Simulation& simulation, const Style& style) {
  return simulation_text(simulation.simulated->report, style);
}

std::string to_json(const Simulation& simulation) { return to_text(simulation_json(simulation.simulated->report)); }

// The page of the plan, with the simulation before all else.
std::string to_html(const Simulation& simulation, const ReportOptions& options) {
  PlanPage page;
  page.first = {simulation_section(simulation.simulated->report)};
  return plan_page_text(simulation.simulated->priced.plan, simulation.simulated->priced.job, options, std::move(page));
}

std::string to_trace(const Simulation& simulation) {
  const SimulatedPlan& simulated = *simulation.simulated;
  return chrome_trace(simulated.lowered, simulated.timeline, simulated.priced.job.title);
}

}  // namespace nest
