// nest simulate: a plan executed event by event, beside its prediction.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "command.h"
#include "cost/evaluate.h"
#include "html/simulation_section.h"
#include "job_options.h"
#include "load/input.h"
#include "options.h"
#include "output.h"
#include "plan/plan_json.h"
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

constexpr std::int64_t kMostSteps = 1000;

struct SimulateQuestion {
  std::string plan_file;
  std::string trace;
  std::string html;
  std::string profile;
  std::int64_t steps = 1;
  double time_limit_s = 600;
};

// The page of the plan, with the simulation before all else.
void write_page(const std::string& path, const SimulationReport& simulated, const Evaluation& evaluation,
                const LoadedJob& loaded, const Session& session) {
  PlanReport report;
  report.title = loaded.title;
  report.plan = simulated.plan;
  report.evaluation = evaluation;
  report.model = loaded.job.model;
  report.device_memory_bytes = loaded.job.cluster.device.memory_bytes;
  write_plan_page(path, report, loaded, session, nullptr, {}, {simulation_section(simulated)});
}

ExitCode simulate_plan(const SimulateQuestion& question, Session& session) {
  Plan plan = read_plan(parse_json(source_name(question.plan_file), read_text(question.plan_file)));
  LoadedJob loaded = load_job(plan);
  load_profile(question.profile, loaded.job);
  if (const std::string reason = refuse_strategy(loaded.job, plan.strategy, plan.stages); !reason.empty()) {
    throw InputError(question.plan_file + ": " + reason);
  }
  const Evaluation evaluation = evaluate(loaded.job, plan.strategy, plan.stages);
  plan.stages = evaluation.stages;
  plan.prediction = evaluation.prediction;
  describe_job(loaded, plan);
  const LoweredPlan lowered = lower_plan(loaded.job, plan.strategy, plan.stages, question.steps);
  Timeline timeline;
  try {
    timeline = simulate(find_simulator(), lowered.program, {.seconds = question.time_limit_s});
  } catch (const SimulatorError& error) {
    write_stderr(fmt::format("nest: {}\n", error.what()));
    return kExitBug;
  }
  const SimulationReport report = make_simulation_report(loaded.title, std::move(plan), lowered,
                                                         summarise(lowered, timeline, evaluation.prediction));
  if (!question.trace.empty()) {
    write_file_atomically(question.trace, chrome_trace(lowered, timeline, loaded.title));
  }
  if (!question.html.empty()) write_page(question.html, report, evaluation, loaded, session);
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
  app->add_option("PLAN", question->plan_file, "a plan file (nest.plan/1), or -")->required()->group("Arguments");
  app->add_option("--trace", question->trace, "write a trace for Perfetto or chrome://tracing here")->type_name("FILE");
  app->add_option("--html", question->html, "write a page with the simulation and the plan here")->type_name("FILE");
  add_profile_option(*app, question->profile);
  add_integer(*app, "--steps", question->steps, 1, kMostSteps, "optimizer steps to execute; default 1");
  app->add_option("--time-limit", question->time_limit_s, "seconds that the simulator may take; default 600")
      ->check(CLI::PositiveNumber)
      ->type_name("S");
  return {app, [question](Session& session) { return simulate_plan(*question, session); },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest
