// nest compare: what other planners would have done, under one cost model.
#include "nest/compare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "command.h"
#include "interrupt.h"
#include "job_options.h"
#include "nest/text.h"
#include "options.h"
#include "output.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "put planners side by side\n"
    "Ours and those of others, each a small implementation of its published idea. All plans are priced by one cost "
    "model on the cluster's own network and judged by the same check. A planner that finds nothing says why.";

constexpr const char* kExamples =
    "  nest compare --model llama3-70b --cluster dgx-h100 --devices 64\n"
    "  nest compare --model mixtral-8x7b --devices 32 --planners nest,manual,mist\n"
    "  nest compare --model gpt3-35b --cluster h100-spine-leaf --devices 128 \\\n"
    "      --micro-batch 1 --simulate --html compare.html --svg compare.svg";

struct CompareRun {
  Question question;
  CompareOptions options;
  std::string planners;
  std::string output, html, svg;
};

ExitCode run_compare(const CompareRun& run, Session& session) {
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
  const Comparison comparison = compare_planners(read_small_job(run.question), options);
  if (!run.output.empty()) write_file_atomically(run.output, to_json(comparison));
  if (!run.svg.empty()) write_file_atomically(run.svg, to_svg(comparison));
  if (!run.html.empty()) write_file_atomically(run.html, to_html(comparison, session.report()));
  if (session.json) {
    session.out = to_json(comparison);
  } else {
    session.out = to_text(comparison, session.style);
    if (!run.output.empty()) session.out += fmt::format("Written to {}.\n", run.output);
    if (!run.svg.empty()) session.out += fmt::format("Drawn in {}.\n", run.svg);
    if (!run.html.empty()) session.out += fmt::format("Report in {}.\n", run.html);
  }
  if (comparison.found()) return kExitOk;
  return comparison.is_open() ? kExitLimit : kExitNoPlan;
}

}  // namespace

Command add_compare(CLI::App& program) {
  CLI::App* app = program.add_subcommand("compare", kDescription);
  app->footer(kExamples);
  const auto run = std::make_shared<CompareRun>();
  CompareOptions& options = run->options;
  add_job_options(*app, run->question);
  app->add_option("--planners", run->planners,
                  fmt::format("which, in the order to show them: any of {}; default all", join_words(planner_names())))
      ->type_name("LIST");
  app->add_option("--micro-batch", options.micro_batch, "auto, or sizes such as 1,2,4")->type_name("auto|LIST");
  app->add_option("--set", options.set, "admit only some values, for all planners: tp=8, pp=1..16, zero=0,1, …")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_integer(*app, "--max-devices", options.max_devices, kDevices, "use at most so many devices");
  add_integer(*app, "--seed", options.seed, kSeeds, "of planners that draw lots; default 1");
  add_integer(*app, "--threads", options.threads, kThreads, "planners at a time; default: one per core");
  app->add_option("--time-limit", options.time_limit_s, "seconds per planner")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  app->add_flag("--simulate", options.simulate, "execute every plan on the simulated network, and compare by that");
  app->add_option("-o,--output", run->output, "write the comparison here (nest.compare/1)")->type_name("FILE");
  app->add_option("--html", run->html, "write a page here: the comparison, and the fastest plan with drawings")
      ->type_name("FILE");
  app->add_option("--svg", run->svg, "write a bar chart here")->type_name("FILE");
  return {app, [run](Session& session) { return run_compare(*run, session); },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest::app
