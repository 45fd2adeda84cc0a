// nest simulate: a plan executed event by event, beside its prediction.
#include "nest/simulate.h"

#include <fmt/format.h>

#include <memory>

#include "command.h"
#include "interrupt.h"
#include "job_options.h"
#include "options.h"
#include "output.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "execute a plan on the simulated network\n"
    "Every micro-batch forward and backward on every stage, every message and exchange of gradients over the links of "
    "the cluster, shared max-min fair. Shows the simulated time beside the predicted one, phase by phase; where they "
    "differ by more than 5 %, which link or stage is the cause.";

constexpr const char* kExamples =
    "  nest plan --model llama3-70b --devices 64 -o plan.json\n"
    "  nest simulate plan.json\n"
    "  nest simulate plan.json --trace trace.json     # open in ui.perfetto.dev\n"
    "  nest simulate plan.json --html report.html     # the same as a page\n"
    "  nest simulate plan.json --runs 5               # how much of it is chance\n"
    "  nest simulate plan.json --json | jq .simulated.iteration_s";

struct SimulateRun {
  std::string plan_file;
  Input profile;
  std::string trace;
  std::string html;
  SimulateOptions options;
};

ExitCode run_simulate(const SimulateRun& run, Session& session) {
  const Plan plan = read_plan(run.plan_file, run.profile);
  const Interrupt interrupt;
  SimulateOptions options = run.options;
  options.stop = interrupt.flag();
  const Simulation simulation = simulate_plan(plan, options);
  if (!run.trace.empty()) write_file_atomically(run.trace, to_trace(simulation));
  if (!run.html.empty()) write_file_atomically(run.html, to_html(simulation, session.report()));
  session.out = session.json ? to_json(simulation) : to_text(simulation, session.style);
  if (!session.json && !run.trace.empty()) session.out += fmt::format("Trace written to {}.\n", run.trace);
  if (!session.json && !run.html.empty()) session.out += fmt::format("Report in {}.\n", run.html);
  return kExitOk;
}

}  // namespace

Command add_simulate(CLI::App& program) {
  CLI::App* app = program.add_subcommand("simulate", kDescription);
  app->footer(kExamples);
  const auto run = std::make_shared<SimulateRun>();
  app->add_option("PLAN", run->plan_file, "a plan file (nest plan -o), or -")->required()->group("Arguments");
  app->add_option("--trace", run->trace, "write a trace for Perfetto or chrome://tracing here")->type_name("FILE");
  app->add_option("--html", run->html, "write a page with the simulation and the plan here")->type_name("FILE");
  add_profile_option(*app, run->profile);
  add_enum(*app, "--engine", run->options.engine, kSimulationEngineWords,
           "what executes: nest itself, or SimGrid as a second judge; default nest");
  add_integer(*app, "--steps", run->options.steps, kSteps, "optimizer steps to execute; default 1");
  CLI::Option* runs = add_integer(*app, "--runs", run->options.runs, kRuns,
                                  "executions with noise besides, every replica for itself; default none");
  app->add_option("--noise", run->options.noise_percent, "standard deviation of a pass in them; default 1")
      ->needs(runs)
      ->type_name("PERCENT");
  add_integer(*app, "--seed", run->options.seed, kSeeds, "of the first of them; default 1")->needs(runs);
  add_seconds(*app, "--time-limit", run->options.time_limit_s, "seconds that one execution may take; default 600");
  return {app, [run](Session& session) { return run_simulate(*run, session); },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest::app
