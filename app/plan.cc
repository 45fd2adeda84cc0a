// nest plan: the fastest plan that fits, and the proof.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "command.h"
#include "interrupt.h"
#include "job_options.h"
#include "nest/error.h"
#include "nest/instance.h"
#include "nest/search.h"
#include "nest/text.h"
#include "options.h"
#include "output.h"

namespace nest::app {
namespace {

struct PlanRun {
  Question question;
  SearchOptions options;
  std::string instance;
  std::string output;
  std::string html;
  std::string tokens;
  double price = 0;
  bool no_why = false;
};

void print_progress(const PlanProgress& progress) {
  if (progress.elapsed_s < 2) return;
  const bool found = progress.best < 1e300 && progress.lower_bound > 0;
  write_progress(fmt::format("nest: {:.0f} s, {} opened, {}   ", progress.elapsed_s, format_integer(progress.opened),
                             found ? fmt::format("best so far within {:.1f} % of the optimum",
                                                 100 * (progress.best / progress.lower_bound - 1))
                                   : "no plan yet"));
}

ExitCode plan_job(const PlanRun& run, Session& session) {
  ReportOptions report = session.report();
  report.tokens = run.tokens.empty() ? 0 : parse_count(run.tokens);
  report.price_per_device_hour = run.price;
  SearchOptions options = run.options;
  options.why = !run.no_why;
  if (!session.json && isatty(STDERR_FILENO) != 0) options.progress = print_progress;
  const TrainingJob job = read_small_job(for_target(run.question, options.target));
  const Interrupt interrupt;
  options.stop = interrupt.flag();
  const Answer answer = find_plan(job, options);
  if (answer.plans.empty()) {
    const bool proven = answer.outcome == PlanOutcome::no_plan;
    if (proven) session.out = session.json ? to_json(answer) : to_text(answer, report);
    session.failure = proven ? "no plan fits" : "stopped before any plan was found";
    return proven ? kExitNoPlan : kExitLimit;
  }
  if (!run.output.empty()) write_file_atomically(run.output, plan_file(answer.plans.front()));
  if (!run.html.empty()) write_file_atomically(run.html, to_html(answer, report));
  if (session.json) {
    session.out = to_json(answer, report);
    return kExitOk;
  }
  session.out = to_text(answer, report);
  if (!run.output.empty()) session.out += fmt::format("Written to {}.\n", run.output);
  if (!run.html.empty()) session.out += fmt::format("Report in {}.\n", run.html);
  return kExitOk;
}

ExitCode solve_instance(const PlanRun& run, Session& session) {
  if (!run.html.empty()) {
    throw InputError("--html: an instance has no model and no cluster to draw; leave out one of them");
  }
  const InstancePlan plan = plan_instance(run.instance);
  if (!plan.found) {
    session.failure = "no plan fits" + (plan.misfit.empty() ? "" : "; " + plan.misfit);
    return kExitNoPlan;
  }
  if (!run.output.empty()) write_file_atomically(run.output, to_json(plan));
  session.out = session.json ? to_json(plan) : to_text(plan, session.style);
  return kExitOk;
}

void add_plan_options(CLI::App& app, PlanRun& run) {
  SearchOptions& options = run.options;
  app.add_option("--micro-batch", options.micro_batch, "auto, or sizes such as 1,2,4")->type_name("auto|LIST");
  app.add_option("--set", options.set, "admit only some values: tp=8, pp=1..16, zero=0,1, sp=1, recompute=none, …")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_word(app, "--target", plan_targets(), options.target,
           "plans that this framework can run, priced with its stack; any: all there are; default: the stack's own");
  add_choice(app, "--objective", options.objective,
             {{"time", PlanObjective::time}, {"device-hours", PlanObjective::device_hours}}, "what is made least");
  add_enum(
      app, "--offload", options.offload, kOffloadWords,
      "quarters of the optimizer's state, and what modules keep for backward, may wait on the host: where nothing fits "
      "without, where that is fastest, or never; default needed");
  add_enum(
      app, "--judge", options.judge, kJudgeWords,
      "what plans are compared by: the formula of the search, or the simulated network, on which those are executed "
      "that the formula prices below the best; default simulation");
  add_integer(app, "--max-devices", options.max_devices, kDevices, "use at most so many devices");
  add_integer(app, "--top", options.top, kTop, "how many plans, each of another kind (tp, cp, ep, etp, pp, schedule)");
  app.add_option("--tie", options.tie_percent,
                 "of plans within so many percent of the proven optimum take the simplest; default 0.5, 0: the fastest")
      ->type_name("PERCENT");
  add_integer(app, "--threads", options.threads, kThreads, "default: one per core");
  app.add_option("--time-limit", options.time_limit_s, "seconds after which the best plan so far is taken")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  app.add_option("--instance", run.instance, "a layer-profile instance instead of model and cluster")
      ->type_name("FILE");
  app.add_option("-o,--output", run.output, "write the plan here (nest.plan/3)")->type_name("FILE");
  app.add_option("--html", run.html, "write a report with drawings here: one file that needs nothing else")
      ->type_name("FILE");
  app.add_flag("--no-why", run.no_why, "do not search for alternatives to compare with");
  app.add_option("--tokens", run.tokens, "tokens to train on, e.g. 15T: adds days and device-hours")
      ->type_name("COUNT");
  app.add_option("--price", run.price, "price of one device-hour: adds the cost of --tokens")
      ->check(CLI::PositiveNumber)
      ->type_name("AMOUNT");
}

}  // namespace

Command add_plan(CLI::App& program) {
  CLI::App* app = program.add_subcommand("plan", "find the fastest plan that fits, and prove it");
  const auto run = std::make_shared<PlanRun>();
  add_job_options(*app, run->question);
  add_plan_options(*app, *run);
  app->footer(
      "  nest plan --model llama3-70b --cluster dgx-h100 --devices 64 \\\n"
      "      --global-batch 512 -o plan.json\n"
      "  nest plan --model mixtral-8x7b --devices 32 --set tp=1..8 --set zero=1 \\\n"
      "      --target megatron --top 5\n"
      "  nest plan --instance profile.json --json");
  return {app,
          [run, app](Session& session) {
            for (const char* other : {"--model", "--cluster", "--devices", "--global-batch", "--set", "--time-limit"}) {
              if (run->instance.empty() || app->count(other) == 0) continue;
              throw InputError(fmt::format("{}: has no effect on an instance; leave out one of them", other));
            }
            return run->instance.empty() ? plan_job(*run, session) : solve_instance(*run, session);
          },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest::app
