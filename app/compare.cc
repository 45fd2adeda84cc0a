// nest compare: candidates of a person, or planners of others, under one cost model.
#include "nest/compare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "command.h"
#include "interrupt.h"
#include "job_options.h"
#include "nest/candidates.h"
#include "nest/error.h"
#include "nest/text.h"
#include "options.h"
#include "output.h"
#include "small_job.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "put candidates, or planners, side by side\n"
    "Candidates: strategies, plan files, several clusters, numbers of devices or stacks; every combination is one. All "
    "are executed on the simulated network of their cluster; told are times, how sure it is that one is slower, and "
    "where "
    "they differ. Without any of these, or with --planners: our planner and those of others, each a small "
    "implementation of its published idea, estimated by one cost model. Who finds nothing says why.";

constexpr const char* kExamples =
    "  nest compare --model llama3-70b --devices 64 --global-batch 128 \\\n"
    "      --strategy best --strategy tp=8,sp=1,pp=4,vpp=5,mbs=1\n"
    "  nest compare --cluster dgx-h100,dgx-b200 --devices 64,128 --html candidates.html\n"
    "  nest compare mine.json theirs.json\n"
    "  nest compare llama3-70b --cluster dgx-h100 --gpus 64\n"
    "  nest compare --model mixtral-8x7b --devices 32 --planners nest,manual,mist\n"
    "  nest compare --model gpt3-35b --cluster h100-spine-leaf --devices 128 \\\n"
    "      --micro-batch 1 --simulate --html compare.html --svg compare.svg";

struct CompareRun {
  Question question;
  JobLists lists;
  std::vector<std::string> plans, strategies;
  std::optional<PlanJudge> judge;
  std::string target;
  CompareOptions options;
  std::string planners;
  std::string output, html, svg;
};

// Writes what was asked for, and says so.
template <class Comparison>
void report(const Comparison& comparison, const CompareRun& run, Session& session) {
  if (!run.output.empty()) write_file_atomically(run.output, to_json(comparison));
  if (!run.svg.empty()) write_file_atomically(run.svg, to_svg(comparison));
  if (!run.html.empty()) write_file_atomically(run.html, to_html(comparison, session.report()));
  if (session.json) {
    session.out = to_json(comparison);
    return;
  }
  session.out = to_text(comparison, session.style);
  if (!run.output.empty()) session.out += fmt::format("Written to {}.\n", run.output);
  if (!run.svg.empty()) session.out += fmt::format("Drawn in {}.\n", run.svg);
  if (!run.html.empty()) session.out += fmt::format("Report in {}.\n", run.html);
}

ExitCode run_planners(const CompareRun& run, Session& session) {
  CompareOptions options = run.options;
  if (!run.planners.empty()) {
    for (const std::string_view part : split_text(run.planners, ',')) options.planners.emplace_back(part);
  }
  const Interrupt interrupt;
  options.stop = interrupt.flag();
  if (!session.json && isatty(STDERR_FILENO) != 0) {
    options.done = [](const std::string& planner, double wall_s) {
      write_stderr(fmt::format("nest: {} is done after {}\n", planner, format_duration(wall_s)));
    };
  }
  Question question = run.question;
  if (!run.lists.clusters.empty()) question.cluster = run.lists.clusters.front();
  if (!run.lists.devices.empty()) question.devices = run.lists.devices.front();
  if (!run.lists.stacks.empty()) question.stack = run.lists.stacks.front();
  const Comparison comparison = compare_planners(read_small_job(question), options);
  report(comparison, run, session);
  if (comparison.found()) return kExitOk;
  return comparison.is_open() ? kExitLimit : kExitNoPlan;
}

ExitCode run_candidates(const CompareRun& run, bool only_plans, Session& session) {
  CandidateLists lists;
  lists.question = run.question;
  lists.clusters.assign(run.lists.clusters.begin(), run.lists.clusters.end());
  lists.devices = run.lists.devices;
  if (lists.clusters.empty() && lists.devices.empty()) lists.devices = {kUsualDevices};
  lists.stacks.assign(run.lists.stacks.begin(), run.lists.stacks.end());
  lists.strategies = run.strategies;
  lists.plans.assign(run.plans.begin(), run.plans.end());
  lists.only_plans = only_plans;
  CandidateOptions options;
  options.search.set = run.options.set;
  options.search.micro_batch = run.options.micro_batch;
  options.search.max_devices = run.options.max_devices;
  options.search.threads = run.options.threads;
  options.search.time_limit_s = run.options.time_limit_s;
  options.search.target = run.target;
  options.search.judge = run.judge.value_or(PlanJudge::simulation);
  const Interrupt interrupt;
  options.search.stop = interrupt.flag();
  if (!session.json && isatty(STDERR_FILENO) != 0) {
    options.begin = [](const std::string& label, const std::string& name) {
      write_progress(fmt::format("nest: {} {} …   ", label, clip(name, 60)));
    };
  }
  const CandidateComparison comparison = compare_candidates(lists, options);
  report(comparison, run, session);
  if (comparison.fastest) return kExitOk;
  return comparison.is_open() ? kExitLimit : kExitNoPlan;
}

ExitCode run_compare(const CompareRun& run, const CLI::App& app, Session& session) {
  const JobLists& lists = run.lists;
  const bool several = lists.clusters.size() > 1 || lists.devices.size() > 1 || lists.stacks.size() > 1;
  if (run.plans.empty() && run.strategies.empty() && !several) {
    for (const char* other : {"--judge", "--target"}) {
      if (app.count(other) == 0) continue;
      throw InputError(
          fmt::format("{}: is for candidates (--strategy, plan files, lists); planners are compared by the "
                      "formula, or with --simulate by execution",
                      other));
    }
    return run_planners(run, session);
  }
  for (const char* other : {"--planners", "--seed", "--simulate"}) {
    if (app.count(other) == 0) continue;
    throw InputError(
        fmt::format("{}: is for planners on one job; leave it out, or plan files, --strategy and lists", other));
  }
  bool of_job = false;  // options that plans have nothing to do with
  for (const char* other : {"--model", "--cluster", "--devices", "--stack", "--strategy", "--global-batch", "--seq"}) {
    of_job = of_job || app.count(other) > 0;
  }
  return run_candidates(run, !run.plans.empty() && !of_job, session);
}

}  // namespace

Command add_compare(CLI::App& program) {
  CLI::App* app = program.add_subcommand("compare", kDescription);
  app->footer(kExamples);
  const auto run = std::make_shared<CompareRun>();
  CompareOptions& options = run->options;
  app->add_option("PLAN", run->plans, "plan files, compared with each other and with what the options say")
      ->group("Arguments");
  app->option_defaults()->group("Candidates");
  app->add_option("--strategy", run->strategies,
                  "as of nest eval, or `best`: what nest plans; once for every candidate. Default: best alone")
      ->type_name("LIST")
      ->allow_extra_args(false);
  add_enum(*app, "--judge", run->judge, kJudgeWords,
           "what candidates are compared by: the formula, or execution on the simulated network; default simulation");
  add_word(*app, "--target", plan_targets(), run->target, "of candidates that are planned, as of nest plan");
  add_job_options(*app, run->question, run->lists);
  app->option_defaults()->group("Comparison");
  app->add_option(
         "--planners", run->planners,
         fmt::format("planners, in the order to show them: any of {}; default all", join_words(planner_names())))
      ->type_name("LIST");
  app->add_option("--micro-batch,--mbs", options.micro_batch, "auto, or sizes such as 1,2,4")->type_name("auto|LIST");
  app->add_option("--set", options.set, "admit only some values, for all that is planned: tp=8, pp=1..16, zero=0,1, …")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_integer(*app, "--max-devices", options.max_devices, kDevices, "use at most so many devices");
  add_integer(*app, "--seed", options.seed, kSeeds, "of planners that draw lots; default 1");
  add_integer(*app, "--threads", options.threads, kThreads,
              "planners at a time, or threads of each search; default: one per core");
  add_seconds(*app, "--time-limit", options.time_limit_s, "seconds per planner or candidate");
  app->add_flag("--simulate", options.simulate,
                "execute every planner's plan on the simulated network, and compare by that");
  app->add_option("-o,--output", run->output,
                  "write the comparison here (nest.compare/1, of candidates nest.candidates/1)")
      ->type_name("FILE");
  app->add_option("--html", run->html, "write a page here: the comparison, and the fastest plan with drawings")
      ->type_name("FILE");
  app->add_option("--svg", run->svg, "write a bar chart here")->type_name("FILE");
  add_dimension_options(*app, options.set, true);
  return {app,
          [run, app](Session& session) {
            // `nest compare llama3-70b`: what is no file is a model.
            if (run->plans.size() == 1 && app->count("--model") == 0 && !std::filesystem::exists(run->plans.front())) {
              run->question.model = Input(run->plans.front());
              run->plans.clear();
            }
            return run_compare(*run, *app, session);
          },
          model_names};
}

}  // namespace nest::app
