// nest plan: the fastest plan that fits, and the proof.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "command.h"
#include "exporter/framework_rules.h"
#include "job_options.h"
#include "load/input.h"
#include "nest/instance.h"
#include "options.h"
#include "output.h"
#include "plan/plan_json.h"
#include "plan/strategy_text.h"
#include "plan_html.h"
#include "plan_no_fit.h"
#include "report/plan_report.h"
#include "report/plan_why.h"
#include "search/judge.h"
#include "search/planner.h"
#include "search/why.h"

namespace nest {
namespace {

constexpr double kWhySeconds = 0.5;         // of each search for an alternative
constexpr std::int64_t kUsualDevices = 64;  // planned for when nobody says anything

struct PlanQuestion {
  JobQuestion job;
  std::string instance;
  std::string micro_batch = "auto";
  std::vector<std::string> settings;
  std::optional<Framework> target;
  PlanObjective objective = PlanObjective::time;
  std::int64_t top = 1;
  std::int64_t threads = 0;
  std::int64_t most_devices = 0;
  double time_limit_s = 0;  // 0: none
  std::string output;
  std::string html;
  std::string tokens;
  double price = 0;
  bool no_why = false;
};

// Set by Ctrl-C; a second one ends the program as usual.
std::atomic<bool>& interrupted() {
  static std::atomic<bool> flag{false};
  return flag;
}

void on_interrupt(int /*signal*/) {
  interrupted().store(true);
  std::signal(SIGINT, SIG_DFL);
}

PlanRequest make_request(const PlanQuestion& question, const Job& job, PriceCache& prices, const Session& session) {
  PlanRequest request;
  request.job = &job;
  request.prices = &prices;
  request.most_devices = question.most_devices;
  request.order.objective = question.objective;
  request.order.top = static_cast<int>(question.top);
  request.order.threads = static_cast<int>(question.threads);
  if (question.time_limit_s > 0) request.order.time_limit_s = question.time_limit_s;
  request.order.stop = session.stop != nullptr ? session.stop : &interrupted();
  if (question.target) rules_of(*question.target).restrict(job, request.limits);
  if (question.micro_batch != "auto") {
    set_limit(request.limits, "mbs=" + question.micro_batch, "--micro-batch");
  }
  for (const std::string& setting : question.settings) set_limit(request.limits, setting);
  return request;
}

PlanReport make_report(const PlanQuestion& question, const Job& job, const Plan& plan) {
  PlanReport report;
  report.plan = plan;
  report.model = job.model;
  report.tokens = question.tokens.empty() ? 0 : parse_count(question.tokens);
  report.price_per_device_hour = question.price;
  return report;
}

std::vector<WhyLine> why_lines(const std::vector<WhyNot>& whys) {
  std::vector<WhyLine> lines;
  for (const WhyNot& why : whys) {
    WhyLine line{why.name, "", why.reason};
    switch (why.outcome) {
      case WhyOutcome::slower: line.verdict = fmt::format("+{:.1f} %", 100 * why.excess); break;
      case WhyOutcome::not_worse: line.verdict = "+0.0 %"; break;
      case WhyOutcome::no_plan: line.verdict = "does not fit"; break;
      case WhyOutcome::unknown:
        if (why.excess < 5e-4) continue;  // nothing was learnt
        line.verdict = fmt::format("> +{:.1f} %", 100 * why.excess);
        break;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

// Plans that differ in nothing else may differ in where their replicas sit.
std::string placement_note(const Strategy& strategy) {
  std::string note;
  if (strategy.dp > 1 && strategy.pp > 1) note += fmt::format(" dp_inner={}", strategy.dp_inner);
  if (strategy.pitch > 0) note += fmt::format(" pitch={}", strategy.pitch);
  return note;
}

std::string other_plans(const PlanAnswer& answer) {
  std::string text;
  const double best = answer.plans.front().prediction.iteration_s;
  for (std::size_t k = 1; k < answer.plans.size(); ++k) {
    const Plan& plan = answer.plans[k];
    const double time = plan.prediction.iteration_s;
    text += fmt::format("  {:>3}  {:>10}  {:>+7.2f} %  {}\n", k + 1, format_duration(time), 100 * (time / best - 1),
                        strategy_text(plan.strategy) + placement_note(plan.strategy));
  }
  return text.empty() ? text : "Next best:\n" + text + "\n";
}

Json why_json(const std::vector<WhyNot>& whys) {
  Json list = Json::array();
  for (const WhyNot& why : whys) {
    Json entry = {{"name", why.name}};
    entry["outcome"] = why.outcome == WhyOutcome::no_plan   ? "no_plan"
                       : why.outcome == WhyOutcome::unknown ? "unknown"
                                                            : "slower";
    if (why.outcome != WhyOutcome::no_plan) entry["excess"] = why.excess;
    if (!why.reason.empty()) entry["reason"] = why.reason;
    if (!why.answer.plans.empty()) {
      entry["strategy"] = strategy_text(why.answer.plans.front().strategy);
      entry["iteration_s"] = why.answer.plans.front().prediction.iteration_s;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

void show_progress(PlanRequest& request, const Session& session) {
  if (session.json || isatty(STDERR_FILENO) == 0) return;
  request.order.progress = [](const PlanProgress& progress) {
    if (progress.elapsed_s < 2) return;
    const bool found = progress.best < 1e300 && progress.lower_bound > 0;
    write_stderr(fmt::format("\rnest: {:.0f} s, {} opened, {}   ", progress.elapsed_s, format_integer(progress.opened),
                             found ? fmt::format("best so far within {:.1f} % of the optimum",
                                                 100 * (progress.best / progress.lower_bound - 1))
                                   : "no plan yet"));
  };
}

ExitCode plan_job(const PlanQuestion& question, Session& session) {
  const Job job = load_job(question.job);
  PriceCache prices;
  PlanRequest request = make_request(question, job, prices, session);
  show_progress(request, session);
  const bool catches = session.stop == nullptr;
  auto* const previous = catches ? std::signal(SIGINT, on_interrupt) : SIG_DFL;
  const PlanAnswer answer = make_plan(request);
  request.order.progress = nullptr;
  if (answer.plans.empty()) {
    const bool proven = answer.outcome == PlanOutcome::no_plan;
    session.out = proven ? no_fit_text(request, session) : session.out;
    write_stderr(proven ? "nest: no plan fits\n" : "nest: stopped before any plan was found\n");
    return proven ? kExitNoPlan : kExitLimit;
  }
  std::vector<WhyNot> whys;
  if (!question.no_why && !request.order.stop->load()) whys = explain_plan(request, answer, kWhySeconds);
  if (catches) std::signal(SIGINT, previous);
  const PlanReport report = make_report(question, job, answer.plans.front());
  Json json = plan_json(report);
  json["why_not"] = why_json(whys);
  for (std::size_t k = 1; k < answer.plans.size(); ++k) {
    json["alternatives"].push_back(plan_to_json(answer.plans[k]));
  }
  if (!question.output.empty()) write_file_atomically(question.output, to_text(plan_to_json(report.plan)));
  if (!question.html.empty()) write_plan_page(question.html, report, job, session, &answer, whys);
  if (session.json) {
    session.out = to_text(json);
    return kExitOk;
  }
  session.out = plan_text(report, session.style) + "\n" + placement_text(report.plan, job.cluster) + "\n";
  session.out += other_plans(answer);
  if (const std::string text = why_text(why_lines(whys), session.style); !text.empty()) session.out += text + "\n";
  session.out += certificate_text(report.plan) + "\n";
  if (!question.output.empty()) session.out += fmt::format("Written to {}.\n", question.output);
  if (!question.html.empty()) session.out += fmt::format("Report in {}.\n", question.html);
  return kExitOk;
}

ExitCode solve_instance(const std::string& file, const std::string& output, Session& session) {
  const InstancePlan plan = plan_instance(file);
  if (!plan.found) {
    write_stderr("nest: no plan fits" + (plan.misfit.empty() ? "" : "; " + plan.misfit) + "\n");
    return kExitNoPlan;
  }
  if (!output.empty()) write_file_atomically(output, to_json(plan));
  session.out = session.json ? to_json(plan) : to_text(plan, session.style);
  return kExitOk;
}

void add_plan_options(CLI::App& app, PlanQuestion& question) {
  app.add_option("--micro-batch", question.micro_batch, "auto, or sizes such as 1,2,4")->type_name("auto|LIST");
  app.add_option("--set", question.settings,
                 "admit only some values: tp=8, pp=1..16, zero=0,1, sp=1, recompute=none, …")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  std::vector<std::pair<std::string, std::optional<Framework>>> targets = {{"any", std::nullopt}};
  for (const FrameworkRules& row : framework_rules()) targets.emplace_back(to_string(row.framework), row.framework);
  add_choice(app, "--target", question.target, targets,
             "plans that this framework can run: one setting for all stages, its rank order");
  add_choice(app, "--objective", question.objective,
             {{"time", PlanObjective::time}, {"device-hours", PlanObjective::device_hours}}, "what is made least");
  add_integer(app, "--max-devices", question.most_devices, kDevices, "use at most so many devices");
  add_integer(app, "--top", question.top, kTop, "how many plans, best first");
  add_integer(app, "--threads", question.threads, kThreads, "default: one per core");
  app.add_option("--time-limit", question.time_limit_s, "seconds after which the best plan so far is taken")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  app.add_option("--instance", question.instance, "a layer-profile instance instead of model and cluster")
      ->type_name("FILE");
  app.add_option("-o,--output", question.output, "write the plan here (nest.plan/2)")->type_name("FILE");
  app.add_option("--html", question.html, "write a report with drawings here: one file that needs nothing else")
      ->type_name("FILE");
  app.add_flag("--no-why", question.no_why, "do not search for alternatives to compare with");
  app.add_option("--tokens", question.tokens, "tokens to train on, e.g. 15T: adds days and device-hours")
      ->type_name("COUNT");
  app.add_option("--price", question.price, "price of one device-hour: adds the cost of --tokens")
      ->check(CLI::PositiveNumber)
      ->type_name("AMOUNT");
}

}  // namespace

Command add_plan(CLI::App& program) {
  CLI::App* app = program.add_subcommand("plan", "find the fastest plan that fits, and prove it");
  auto question = std::make_shared<PlanQuestion>();
  add_job_options(*app, question->job);
  add_plan_options(*app, *question);
  app->footer(
      "  nest plan --model llama3-70b --cluster dgx-h100 --devices 64 \\\n"
      "      --global-batch 512 -o plan.json\n"
      "  nest plan --model mixtral-8x7b --devices 32 --set tp=1..8 --set zero=1 \\\n"
      "      --target megatron --top 5\n"
      "  nest plan --instance profile.json --json");
  return {app,
          [question, app](Session& session) {
            if (!question->instance.empty() && !question->html.empty()) {
              throw InputError("--html: an instance has no model and no cluster to draw; leave out one of them");
            }
            if (!question->instance.empty()) return solve_instance(question->instance, question->output, session);
            if (app->count("--cluster") == 0 && app->count("--devices") == 0) question->job.devices = kUsualDevices;
            return plan_job(*question, session);
          },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest
