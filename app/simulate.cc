// nest simulate: a plan executed event by event, beside its prediction.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "command.h"
#include "html/simulation_section.h"
#include "job_options.h"
#include "options.h"
#include "output.h"
#include "plan_html.h"
#include "report/simulate_report.h"
#include "simulate/trace.h"
#include "simulate_client/client.h"

namespace nest {
namespace {

constexpr const char* kDescription =
    "execute a plan on the simulated network\n"
    "Every micro-batch forward and backward on every stage, every message and exchange of gradients over the links of "
    "the cluster, shared max-min fair. Shows the simulated time beside the predicted one, phase by phase; where they "
    "differ by more than 5 %, which link or stage is the cause. Needs SimGrid.";

constexpr const char* kExamples =
    "  nest plan --model llama3-70b --devices 64 -o plan.json\n"
    "  nest simulate plan.json\n"
    "  nest simulate plan.json --trace trace.json     # open in ui.perfetto.dev\n"
    "  nest simulate plan.json --html report.html     # the same as a page\n"
    "  nest simulate plan.json --json | jq .simulated.iteration_s";

struct SimulateQuestion {
  std::string plan_file;
  std::string trace;
  std::string html;
  std::string profile;
  std::int64_t steps = 1;
  double time_limit_s = 600;
};

// The page of the plan, with the simulation before all else.
void write_page(const std::string& path, const SimulationReport& simulated, const Job& job, const Session& session) {
  PlanReport report;
  report.plan = simulated.plan;
  report.model = job.model;
  write_plan_page(path, report, job, session, nullptr, {}, {simulation_section(simulated)});
}

ExitCode simulate_plan(const SimulateQuestion& question, Session& session) {
  const OpenedPlan priced = price_plan(question.plan_file, question.profile);
  const Plan& plan = priced.plan;
  const LoweredPlan lowered = lower_plan(priced.job, plan.strategy, plan.stages, question.steps);
  Timeline timeline;
  try {
    timeline = simulate(find_simulator(), lowered.program, {.seconds = question.time_limit_s});
  } catch (const SimulatorError& error) {
    write_stderr(fmt::format("nest: {}\n", error.what()));
    return kExitBug;
  }
  const SimulationReport report =
      make_simulation_report(priced.job.title, plan, lowered, summarise(lowered, timeline, plan.prediction));
  if (!question.trace.empty()) {
    write_file_atomically(question.trace, chrome_trace(lowered, timeline, priced.job.title));
  }
  if (!question.html.empty()) write_page(question.html, report, priced.job, session);
  session.out = session.json ? to_text(simulation_json(report)) : simulation_text(report, session.style);
  if (!session.json && !question.trace.empty()) session.out += fmt::format("Trace written to {}.\n", question.trace);
  if (!session.json && !question.html.empty()) session.out += fmt::format("Report in {}.\n", question.html);
  return kExitOk;
}

}  // namespace

Command add_simulate(CLI::App& program) {
  CLI::App* app = program.add_subcommand("simulate", kDescription);
  app->footer(kExamples);
  const auto question = std::make_shared<SimulateQuestion>();
  app->add_option("PLAN", question->plan_file, "a plan file (nest plan -o), or -")->required()->group("Arguments");
  app->add_option("--trace", question->trace, "write a trace for Perfetto or chrome://tracing here")->type_name("FILE");
  app->add_option("--html", question->html, "write a page with the simulation and the plan here")->type_name("FILE");
  add_profile_option(*app, question->profile);
  add_integer(*app, "--steps", question->steps, kSteps, "optimizer steps to execute; default 1");
  app->add_option("--time-limit", question->time_limit_s, "seconds that the simulator may take; default 600")
      ->check(CLI::PositiveNumber)
      ->type_name("S");
  return {app, [question](Session& session) { return simulate_plan(*question, session); },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest
