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
  simulate::LoweredPlan lowered;
  simulate::Timeline timeline;
  report::SimulationReport report;
};

Simulation simulate_plan(const Plan& plan, const SimulateOptions& options) {
  require_range("steps", options.steps, kSteps);
  require_seconds("time_limit", options.time_limit_s);
  auto simulated = std::make_shared<SimulatedPlan>();
  simulated->priced = price_plan(plan);
  const cost::Job& job = simulated->priced.job;
  const Plan& priced = simulated->priced.plan;
  simulated->lowered = simulate::lower_plan(job, priced.strategy, priced.stages, options.steps);
  SimulatorLimits limits;
  if (options.time_limit_s > 0) limits.seconds = options.time_limit_s;
  limits.stop = options.stop;
  simulated->timeline = execute_program(options.engine, simulated->lowered.program, limits);
  const simulate::SimulationSummary summary = summarise(simulated->lowered, simulated->timeline, priced.prediction);
  simulated->report = report::make_simulation_report(job.title, priced, simulated->lowered, summary);
  return {summary.iteration_s, summary.predicted_s, simulated};
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
