// nest eval: the price of one given plan.
#include "nest/evaluate.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "command.h"
#include "interrupt.h"
#include "job_options.h"
#include "nest/error.h"
#include "nest/launch.h"
#include "nest/text.h"
#include "options.h"
#include "output.h"
#include "small_job.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "estimate one given plan: time, memory, cost\n"
    "The time of a step and where it goes, the memory of every stage and what it consists of. A plan that does not fit "
    "is said not "
    "to (exit 3), with what is too large.";

constexpr const char* kExamples =
    "  nest eval llama3-70b --gpus 64 --gbs 128 --tp 8 --sp --pp 4 --vpp 5\n"
    "  nest eval llama3-70b --gpus 64 --gbs 128 --strategy tp=8,sp,pp=4,vpp=5,mbs=1\n"
    "  nest eval --model config.json --cluster my.yaml --stack fsdp2 \\\n"
    "      --strategy zero=3,mbs=2,recompute=full --tokens 1T --price 2.5\n"
    "  nest eval plan.json --json\n"
    "  nest eval --from train.sh --cluster my.yaml --define NNODES=16 -o best.json";

struct EvalRun {
  std::string plan_file;  // or a model, which then is the question's
  Question question;
  std::string strategy;
  std::vector<std::string> pieces;  // of the strategy: "tp=8"
  PlanJudge judge = PlanJudge::simulation;
  LaunchQuestion launch;
  double tokens = 0;
  double price = 0;
  std::string output, html;

  std::string whole_strategy() const {
    std::string text = strategy;
    for (const std::string& piece : pieces) text += (text.empty() ? "" : ",") + piece;
    return text;
  }
};

std::string written_text(const EvalRun& run) {
  std::string text;
  if (!run.output.empty()) text += fmt::format("Written to {}.\n", run.output);
  if (!run.html.empty()) text += fmt::format("Report in {}.\n", run.html);
  return text.empty() ? text : '\n' + text;
}

void add_launch_options(CLI::App& app, LaunchQuestion& launch) {
  app.option_defaults()->group("Your own launch line");
  app.add_option("--from", launch.from.name,
                 "a launch line, or a file with one: script, Megatron arguments or YAML, overrides of Megatron-Bridge "
                 "or NeMo 2, "
                 "DeepSpeed JSON, torchtitan TOML; estimated, and compared with the best plan")
      ->type_name("LINE|FILE");
  app.add_option("--define", launch.define, "a variable that the line leaves open")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  app.add_option("--with", launch.with, "options added to those of the line")->type_name("OPTIONS");
  add_integer(app, "--threads", launch.threads, kThreads, "of the search for the best plan; default: one per core");
  add_seconds(app, "--time-limit", launch.time_limit_s, "seconds of each search");
}

ExitCode eval_launch(const EvalRun& run, const CLI::App& app, Session& session) {
  if (!run.pieces.empty()) {
    throw InputError(fmt::format("{}: contradicts --from, whose line says it", run.pieces.front()));
  }
  if (!run.plan_file.empty()) throw InputError("PLAN: contradicts --from, whose line says it");
  for (const char* other : {"--strategy", "--stack"}) {
    if (app.count(other) > 0) throw InputError(fmt::format("{}: contradicts --from, whose line says it", other));
  }
  const Interrupt interrupt;
  LaunchQuestion launch = run.launch;
  launch.job = run.question;
  launch.stop = interrupt.flag();
  launch.judge = run.judge;
  const LaunchAnswer answer = evaluate_launch(launch);
  const bool writes = !run.output.empty() || !run.html.empty();
  if (writes && !answer.best) throw InputError("--output, --html: there is no best plan to write; none fits");
  ReportOptions report = session.report();
  report.tokens = run.tokens;
  report.price_per_device_hour = run.price;
  if (!run.output.empty()) write_file_atomically(run.output, plan_file(*answer.best));
  if (!run.html.empty()) write_file_atomically(run.html, to_html(*answer.best, report));
  session.out = session.json ? to_json(answer) : to_text(answer, session.style) + written_text(run);
  return answer.yours.fits ? kExitOk : kExitNoPlan;
}

ExitCode eval_plan(const EvalRun& run, Session& session) {
  ReportOptions report = session.report();
  report.tokens = run.tokens;
  report.price_per_device_hour = run.price;
  const Plan plan = run.plan_file.empty() ? evaluate_plan(read_job(run.question), run.whole_strategy(), run.judge)
                                          : evaluate_plan(read_plan(run.plan_file, run.question.profile), run.judge);
  if (!run.output.empty()) write_file_atomically(run.output, plan_file(plan));
  if (!run.html.empty()) write_file_atomically(run.html, to_html(plan, report));
  session.out = session.json ? to_json(plan, report) : to_text(plan, report) + written_text(run);
  return plan.fits ? kExitOk : kExitNoPlan;
}

// `nest eval llama3-70b --tp 8`: what is the name of a model is no plan.
void take_model(EvalRun& run, const CLI::App& app) {
  if (run.plan_file.empty() || app.count("--model") > 0) return;
  const std::vector<std::string> models = model_names();
  Question named;
  named.model.name = run.plan_file;
  refuse_stray_setting(named);
  if (!find_word(run.plan_file, models)) return;
  run.question.model.name = std::exchange(run.plan_file, {});
}

}  // namespace

Command add_eval(CLI::App& program) {
  CLI::App* app = program.add_subcommand("eval", kDescription);
  app->footer(kExamples);
  const auto run = std::make_shared<EvalRun>();
  app->add_option("PLAN", run->plan_file, "a plan file, instead of all that follows; or the name of a model")
      ->group("Arguments");
  add_launch_options(*app, run->launch);
  app->option_defaults()->group("Strategy");
  app->add_option(
         "--strategy", run->strategy,
         fmt::format(
             "any of {}, with commas or blanks between, as nest prints it; what is left out is 1 or off, and dp "
             "fills the devices",
             strategy_help()))
      ->type_name("LIST")
      ->expected(1, 64)
      ->join(' ');
  add_enum(*app, "--judge", run->judge, kJudgeWords,
           "what a step's time is told by: the formula, or the simulated network where that says otherwise; default "
           "simulation");
  add_job_options(*app, run->question);
  add_dimension_options(*app, run->pieces, false);
  app->option_defaults()->group("Totals");
  add_tokens(*app, run->tokens);
  add_price(*app, run->price);
  app->option_defaults()->group("Report");
  app->add_option("-o,--output", run->output, "write the plan here (nest.plan/3); with --from: the best one")
      ->type_name("FILE");
  app->add_option("--html", run->html, "write a report with drawings here: one file that needs nothing else")
      ->type_name("FILE");
  return {app,
          [run, app](Session& session) {
            take_model(*run, *app);
            if (!run->plan_file.empty()) {
              if (!run->pieces.empty()) {
                throw InputError(fmt::format("{}: contradicts the plan file, which says it", run->pieces.front()));
              }
              for (const char* other :
                   {"--strategy", "--model", "--cluster", "--devices", "--nodes", "--global-batch", "--stack"}) {
                if (app->count(other) > 0) {
                  throw InputError(fmt::format("{}: contradicts the plan file, which says it", other));
                }
              }
            }
            if (run->launch.from.empty()) return eval_plan(*run, session);
            return eval_launch(*run, *app, session);
          },
          model_names};
}

}  // namespace nest::app
