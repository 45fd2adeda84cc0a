// nest eval: the price of one given plan.
#include "nest/evaluate.h"

#include <fmt/format.h>

#include <memory>

#include "command.h"
#include "interrupt.h"
#include "job_options.h"
#include "nest/error.h"
#include "nest/launch.h"
#include "nest/text.h"
#include "options.h"
#include "output.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "price one given plan: time, memory, money\n"
    "The time of a step and where it goes, the memory of every stage and what it consists of. A plan that does not fit "
    "is said not "
    "to (exit 3), with what is too large.";

constexpr const char* kExamples =
    "  nest eval --model llama3-70b --cluster dgx-h100 --devices 64 \\\n"
    "      --global-batch 128 --strategy tp=8,sp=1,pp=4,vpp=5,mbs=1\n"
    "  nest eval --model config.json --cluster my.yaml --stack fsdp2 \\\n"
    "      --strategy zero=3,mbs=2,recompute=full --tokens 1T --price 2.5\n"
    "  nest eval plan.json --json\n"
    "  nest eval --from train.sh --cluster my.yaml --define NNODES=16";

struct EvalRun {
  std::string plan_file;
  Question question;
  std::string strategy;
  PlanJudge judge = PlanJudge::simulation;
  LaunchQuestion launch;
  std::string tokens;
  double price = 0;
  std::string html;
};

void add_launch_options(CLI::App& app, LaunchQuestion& launch) {
  app.option_defaults()->group("Your own launch line");
  app.add_option("--from", launch.from.name,
                 "a launch line, or a file with one: script, Megatron arguments or YAML, overrides of Megatron-Bridge "
                 "or NeMo 2, "
                 "DeepSpeed JSON, torchtitan TOML; priced, and compared with the best plan")
      ->type_name("LINE|FILE");
  app.add_option("--define", launch.define, "a variable that the line leaves open")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  app.add_option("--with", launch.with, "options added to those of the line")->type_name("OPTIONS");
  add_integer(app, "--threads", launch.threads, kThreads, "of the search for the best plan; default: one per core");
  app.add_option("--time-limit", launch.time_limit_s, "seconds of each search")
      ->check(CLI::PositiveNumber)
      ->type_name("S");
}

ExitCode eval_launch(const EvalRun& run, const CLI::App& app, Session& session) {
  for (const char* other : {"PLAN", "--strategy", "--stack"}) {
    if (app.count(other) > 0) throw InputError(fmt::format("{}: contradicts --from, whose line says it", other));
  }
  const Interrupt interrupt;
  LaunchQuestion launch = run.launch;
  launch.job = run.question;
  launch.stop = interrupt.flag();
  launch.judge = run.judge;
  const LaunchAnswer answer = evaluate_launch(launch);
  session.out = session.json ? to_json(answer) : to_text(answer, session.style);
  return answer.yours.fits ? kExitOk : kExitNoPlan;
}

ExitCode eval_plan(const EvalRun& run, Session& session) {
  if (run.price < 0) throw InputError("--price: a price is not negative");
  ReportOptions report = session.report();
  report.tokens = run.tokens.empty() ? 0 : parse_count(run.tokens);
  report.price_per_device_hour = run.price;
  const Plan plan = run.plan_file.empty() ? evaluate_plan(read_job(run.question), run.strategy, run.judge)
                                          : evaluate_plan(read_plan(run.plan_file, run.question.profile), run.judge);
  if (!run.html.empty()) write_file_atomically(run.html, to_html(plan, report));
  session.out = session.json ? to_json(plan, report) : to_text(plan, report);
  if (!session.json && !run.html.empty()) session.out += fmt::format("\nReport in {}.\n", run.html);
  return plan.fits ? kExitOk : kExitNoPlan;
}

}  // namespace

Command add_eval(CLI::App& program) {
  CLI::App* app = program.add_subcommand("eval", kDescription);
  app->footer(kExamples);
  const auto run = std::make_shared<EvalRun>();
  app->add_option("PLAN", run->plan_file, "a plan file, instead of all that follows")->group("Arguments");
  add_launch_options(*app, run->launch);
  app->option_defaults()->group("Strategy");
  app->add_option("--strategy", run->strategy,
                  fmt::format("any of {}, joined by commas; what is left out is 1 or off, and dp fills the devices",
                              strategy_help()))
      ->type_name("LIST");
  add_enum(*app, "--judge", run->judge, kJudgeWords,
           "what a step's time is told by: the formula, or the simulated network where that says otherwise; default "
           "simulation");
  add_job_options(*app, run->question);
  app->option_defaults()->group("Totals");
  app->add_option("--tokens", run->tokens, "tokens to train on, for example 15T: adds days and device-hours")
      ->type_name("COUNT");
  app->add_option("--price", run->price, "price of one device-hour: adds the cost of --tokens")->type_name("PRICE");
  app->option_defaults()->group("Report");
  app->add_option("--html", run->html, "write a report with drawings here: one file that needs nothing else")
      ->type_name("FILE");
  return {
      app,
      [run, app](Session& session) {
        if (!run->plan_file.empty()) {
          for (const char* other : {"--strategy", "--model", "--cluster", "--devices", "--global-batch", "--stack"}) {
            if (app->count(other) > 0) {
              throw InputError(fmt::format("{}: contradicts the plan file, which says it", other));
            }
          }
        }
        if (run->launch.from.empty()) return eval_plan(*run, session);
        if (!run->html.empty()) {
          throw InputError("--html: goes with a plan file or with --strategy, not with --from");
        }
        return eval_launch(*run, *app, session);
      },
      [] { return std::vector<std::string>(); }};
}

}  // namespace nest::app
