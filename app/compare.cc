// nest compare: what other planners would have done, under one cost model.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "command.h"
#include "html/compare_section.h"
#include "job_options.h"
#include "options.h"
#include "output.h"
#include "plan_html.h"
#include "report/compare_report.h"
#include "rivals/side_by_side.h"
#include "simulate/summary.h"
#include "simulate_client/client.h"

namespace nest {
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

constexpr std::int64_t kUsualDevices = 64;
constexpr double kSimulatorSeconds = 600;

struct CompareQuestion {
  JobQuestion job;
  std::string planners;
  std::string micro_batch = "auto";
  std::vector<std::string> settings;
  std::int64_t most_devices = 0;
  std::int64_t seed = 1;
  std::int64_t threads = 0;
  double time_limit_s = 0;
  bool simulate = false;
  std::string output, html, svg;
};

std::vector<std::string> chosen_planners(const std::string& list) {
  const std::vector<std::string> known = planner_names();
  if (list.empty()) return known;
  std::vector<std::string> chosen;
  for (const std::string_view part : split_text(list, ',')) {
    std::string name = to_lower(trim(part));
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const char* left_out = name == "alpa" ? " (alpa needs COIN-OR CBC, which this build was made without)" : "";
      throw InputError(fmt::format("--planners: `{}` is no planner{}{}; known are {}", clip(name, 40),
                                   did_you_mean(name, known), left_out, join_words(known)));
    }
    if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.push_back(std::move(name));
  }
  return chosen;
}

RivalRequest make_request(const CompareQuestion& question, const Job& job) {
  RivalRequest request;
  request.job = &job;
  request.most_devices = question.most_devices;
  request.seed = static_cast<std::uint64_t>(question.seed);
  request.time_limit_s = question.time_limit_s;
  if (question.micro_batch != "auto") {
    set_limit(request.limits, "mbs=" + question.micro_batch, "--micro-batch");
  }
  for (const std::string& setting : question.settings) set_limit(request.limits, setting);
  return request;
}

void simulate_plans(const Job& job, const std::string& simulator, CompareReport& report) {
  for (ComparedPlanner& planner : report.planners) {
    if (!planner.plan) continue;
    try {
      const LoweredPlan lowered = lower_plan(job, planner.plan->strategy, planner.plan->stages);
      const Timeline timeline = simulate(simulator, lowered.program, {.seconds = kSimulatorSeconds});
      planner.simulated_s = summarise(lowered, timeline, planner.plan->prediction).iteration_s;
    } catch (const SimulatorError& error) {
      planner.simulation_note = fmt::format("not simulated: {}", error.what());
    } catch (const InputError& error) {
      planner.simulation_note = fmt::format("not simulated: {}", error.what());
    }
  }
}

CompareReport make_report(const Job& job, const std::vector<PlannerRun>& runs) {
  CompareReport report;
  report.about = empty_plan(job);
  for (const PlannerRun& run : runs) {
    ComparedPlanner& planner = report.planners.emplace_back();
    planner.name = run.planner;
    planner.idea = run.idea;
    planner.source = run.source;
    planner.note = run.note;
    planner.stopped = run.stopped;
    planner.none_fits = run.none_fits;
    planner.considered = run.considered;
    planner.wall_s = run.wall_s;
    planner.plan = run.plan;
  }
  return report;
}

// The page of the fastest plan, with the comparison before all else; the comparison alone where nobody has a plan.
std::string page_text(const CompareReport& report, const Job& job, const Session& session) {
  const ComparedPlanner* fastest = report.fastest();
  if (fastest == nullptr) return compare_page(report).str();
  PlanReport winner;
  winner.plan = *fastest->plan;
  winner.model = job.model;
  return plan_page_text(winner, job, session, nullptr, {}, {compare_section(report)});
}

ExitCode compare_planners(const CompareQuestion& question, Session& session) {
  const std::vector<std::string> names = chosen_planners(question.planners);
  const Job job = load_job(question.job);
  const RivalRequest request = make_request(question, job);
  const int threads =
      static_cast<int>(question.threads > 0 ? question.threads : std::max(1U, std::thread::hardware_concurrency()));
  std::string simulator;
  if (question.simulate) {
    try {
      simulator = find_simulator();
    } catch (const SimulatorError& error) {
      write_stderr(fmt::format("nest: {}\n", error.what()));
      return kExitBug;
    }
  }
  const bool shows = !session.json && isatty(STDERR_FILENO) != 0;
  const std::vector<PlannerRun> runs = run_planners(names, request, threads, [&](const PlannerRun& run) {
    if (shows) write_stderr(fmt::format("nest: {} is done after {}\n", run.planner, format_duration(run.wall_s)));
  });
  CompareReport report = make_report(job, runs);
  if (question.simulate) {
    report.simulated = true;
    simulate_plans(job, simulator, report);
  }
  const std::string json = to_text(compare_json(report)), svg = bar_chart_svg(compare_chart(report));
  const std::string page = question.html.empty() ? "" : page_text(report, job, session);
  if (!question.output.empty()) write_file_atomically(question.output, json);
  if (!question.svg.empty()) write_file_atomically(question.svg, svg);
  if (!question.html.empty()) write_file_atomically(question.html, page);
  if (session.json) {
    session.out = json;
  } else {
    session.out = compare_text(report, session.style);
    if (!question.output.empty()) session.out += fmt::format("Written to {}.\n", question.output);
    if (!question.svg.empty()) session.out += fmt::format("Drawn in {}.\n", question.svg);
    if (!question.html.empty()) session.out += fmt::format("Report in {}.\n", question.html);
  }
  if (report.baseline() != nullptr) return kExitOk;
  return report.is_open() ? kExitLimit : kExitNoPlan;
}

}  // namespace

Command add_compare(CLI::App& program) {
  CLI::App* app = program.add_subcommand("compare", kDescription);
  app->footer(kExamples);
  const auto question = std::make_shared<CompareQuestion>();
  add_job_options(*app, question->job);
  app->add_option("--planners", question->planners,
                  fmt::format("which, in the order to show them: any of {}; default all", join_words(planner_names())))
      ->type_name("LIST");
  app->add_option("--micro-batch", question->micro_batch, "auto, or sizes such as 1,2,4")->type_name("auto|LIST");
  app->add_option("--set", question->settings, "admit only some values, for all planners: tp=8, pp=1..16, zero=0,1, …")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_integer(*app, "--max-devices", question->most_devices, kDevices, "use at most so many devices");
  add_integer(*app, "--seed", question->seed, kSeeds, "of planners that draw lots; default 1");
  add_integer(*app, "--threads", question->threads, kThreads, "planners at a time; default: one per core");
  app->add_option("--time-limit", question->time_limit_s, "seconds per planner")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  app->add_flag("--simulate", question->simulate, "execute every plan on the simulated network too; needs SimGrid");
  app->add_option("-o,--output", question->output, "write the comparison here (nest.compare/1)")->type_name("FILE");
  app->add_option("--html", question->html, "write a page here: the comparison, and the fastest plan with drawings")
      ->type_name("FILE");
  app->add_option("--svg", question->svg, "write a bar chart here")->type_name("FILE");
  return {app,
          [question, app](Session& session) {
            if (app->count("--cluster") == 0 && app->count("--devices") == 0) question->job.devices = kUsualDevices;
            return compare_planners(*question, session);
          },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest
