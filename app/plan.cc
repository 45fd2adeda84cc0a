// nest plan: the fastest plan that fits, and the proof.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "command.h"
#include "interrupt.h"
#include "job_options.h"
#include "nest/demand.h"
#include "nest/error.h"
#include "nest/failures.h"
#include "nest/instance.h"
#include "nest/largest.h"
#include "nest/pools.h"
#include "nest/search.h"
#include "nest/text.h"
#include "options.h"
#include "output.h"
#include "small_job.h"

namespace nest::app {
namespace {

// What --objective names.
enum class PlanAim : std::uint8_t { none, time, device_hours, cost, devices, goodput };

struct PlanRun {
  Question question;
  SearchOptions options;
  std::string instance;
  std::string output;
  std::string html;
  double tokens = 0;
  double price = 0;
  bool no_why = false;
  bool sensitivity = false;
  PlanAim objective = PlanAim::none;
  std::string deadline, budget;
  std::string mtbf, checkpoint_bandwidth, restart, repair;
  std::int64_t lost_nodes = 0;
  std::optional<LargestOf> largest;
  std::int64_t multiple_of = 0;
};

double parse_positive(const char* name, const std::string& text, double (*parse)(std::string_view),
                      const char* example) {
  try {
    if (const double value = parse(text); value > 0) return value;
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", name, error.what()));
  }
  throw InputError(fmt::format("{}: \"{}\" is not more than 0; write for example {}", name, clip(text, 40), example));
}

void print_progress(const PlanProgress& progress) {
  if (progress.elapsed_s < 2) return;
  const bool found = progress.best < 1e300 && progress.lower_bound > 0;
  write_progress(fmt::format("nest: {:.0f} s, {} opened, {}   ", progress.elapsed_s, format_integer(progress.opened),
                             found ? fmt::format("best so far within {:.1f} % of the optimum",
                                                 100 * (progress.best / progress.lower_bound - 1))
                                   : "no plan yet"));
}

// The answer, whatever the question was, and its files. `plan` is its first.
template <class Answered>
ExitCode write_answer(const PlanRun& run, const Answered& answer, const Plan& plan, const ReportOptions& report,
                      Session& session) {
  if (!run.output.empty()) write_file_atomically(run.output, plan_file(plan));
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

Demand demand_of(const PlanRun& run, const ReportOptions& report) {
  Demand demand;
  demand.tokens = report.tokens;
  demand.price_per_device_hour = run.price;
  if (!run.deadline.empty()) demand.deadline_s = parse_positive("--deadline", run.deadline, parse_duration, "30d");
  if (!run.budget.empty()) demand.budget = parse_positive("--budget", run.budget, parse_money, "1M");
  switch (run.objective) {
    case PlanAim::none: demand.aim = run.deadline.empty() ? DemandAim::time : DemandAim::devices; break;
    case PlanAim::devices: demand.aim = DemandAim::devices; break;
    case PlanAim::time: demand.aim = DemandAim::time; break;
    case PlanAim::device_hours:
    case PlanAim::cost: demand.aim = DemandAim::cost; break;
    case PlanAim::goodput: throw InputError("--objective goodput: not together with --deadline or --budget");
  }
  return demand;
}

ExitCode plan_demand(const PlanRun& run, const SearchOptions& options, const ReportOptions& report, Session& session) {
  const DemandAnswer answer = meet_demand(for_target(run.question, options.target), demand_of(run, report), options);
  if (answer.answer) return write_answer(run, answer, answer.answer->plans.front(), report, session);
  const bool proven = answer.outcome == PlanOutcome::no_plan;
  if (proven) session.out = session.json ? to_json(answer, report) : to_text(answer, report);
  session.failure = !proven                ? "stopped before any plan was found that meets it"
                    : run.deadline.empty() ? "no plan keeps to the budget"
                    : run.budget.empty()   ? "no plan meets the deadline"
                                           : "no plan meets the deadline and keeps to the budget";
  return proven ? kExitNoPlan : kExitLimit;
}

// What is not asked together with the largest that fits.
void check_largest_words(const PlanRun& run) {
  if (!run.largest) {
    if (run.multiple_of > 0) throw InputError("--multiple-of: of what? Give --largest, for example --largest seq");
    return;
  }
  const std::pair<const char*, bool> words[] = {{"--deadline", !run.deadline.empty()},
                                                {"--budget", !run.budget.empty()},
                                                {"--mtbf", !run.mtbf.empty()},
                                                {"--sensitivity", run.sensitivity}};
  for (const auto& [word, given] : words) {
    if (given) throw InputError(fmt::format("{}: not together with --largest; ask one after the other", word));
  }
}

ExitCode plan_largest(const PlanRun& run, const SearchOptions& options, const ReportOptions& report, Session& session) {
  const LargestAnswer answer =
      find_largest(small_question(for_target(run.question, options.target)), *run.largest, options, run.multiple_of);
  if (answer.has_plan()) return write_answer(run, answer, answer.answer->plans.front(), report, session);
  const bool proven = answer.outcome == PlanOutcome::no_plan;
  if (proven) session.out = session.json ? to_json(answer, report) : to_text(answer, report);
  if (proven && !run.html.empty()) write_file_atomically(run.html, to_html(answer, report));
  session.failure = proven ? "no plan fits" : "stopped before any plan was found";
  return proven ? kExitNoPlan : kExitLimit;
}

// What is asked of one pool at a time.
void check_pool_words(const PlanRun& run) {
  const std::pair<const char*, bool> words[] = {
      {"--deadline", !run.deadline.empty()},  {"--budget", !run.budget.empty()},  {"--mtbf", !run.mtbf.empty()},
      {"--largest", run.largest.has_value()}, {"--sensitivity", run.sensitivity}, {"--price", run.price > 0}};
  for (const auto& [word, given] : words) {
    if (!given) continue;
    throw InputError(fmt::format("{}: {} names pools; {}", word, run.question.cluster.name,
                                 std::string_view(word) == "--price"
                                     ? "their prices are in the file"
                                     : "name one of them, for example " + run.question.cluster.name + "#main"));
  }
}

ExitCode plan_each_pool(const PlanRun& run, const SearchOptions& options, const ReportOptions& report,
                        Session& session) {
  check_pool_words(run);
  const PoolsAnswer answer = plan_pools(run.question, options);
  if (answer.chosen) {
    const PlannedPool& pool = answer.pools[*answer.chosen];
    return write_answer(run, answer, *pool.plan(), report, session);
  }
  if (!answer.is_stopped) session.out = session.json ? to_json(answer, report) : to_text(answer, report);
  session.failure = answer.is_stopped ? "stopped before any plan was found" : "no plan fits on any pool";
  return answer.is_stopped ? kExitLimit : kExitNoPlan;
}

ExitCode no_answer(const PlanRun& run, const Answer& answer, const ReportOptions& report, Session& session) {
  const bool proven = answer.outcome == PlanOutcome::no_plan;
  if (proven) session.out = session.json ? to_json(answer) : to_text(answer, report);
  if (proven && !run.html.empty()) {
    write_file_atomically(run.html, to_html(answer, report));
    if (!session.json) session.out += fmt::format("\nReport in {}.\n", run.html);
  }
  session.failure = proven ? "no plan fits" : "stopped before any plan was found";
  return proven ? kExitNoPlan : kExitLimit;
}

FailureOptions failures_of(const PlanRun& run, const TrainingJob& job) {
  FailureOptions failures;
  const std::int64_t per_node = job.devices_per_node();
  try {
    failures.device_mtbf_s = parse_mtbf(run.mtbf, per_node == 0 ? 1 : per_node);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--mtbf: {}", error.what()));
  }
  if (!run.checkpoint_bandwidth.empty()) {
    failures.storage_bytes_per_s =
        parse_positive("--checkpoint-bandwidth", run.checkpoint_bandwidth, parse_bandwidth, "2TB/s");
  }
  if (!run.restart.empty()) failures.restart_s = parse_positive("--restart", run.restart, parse_duration, "10min");
  if (!run.repair.empty()) failures.repair_s = parse_positive("--repair", run.repair, parse_duration, "24h");
  failures.lost_nodes = run.lost_nodes;
  failures.best_goodput = run.objective == PlanAim::goodput;
  return failures;
}

// What is of no use without failures, and what is not asked together with them.
void check_failure_words(const PlanRun& run) {
  if (run.mtbf.empty()) {
    const std::pair<const char*, bool> words[] = {{"--checkpoint-bandwidth", !run.checkpoint_bandwidth.empty()},
                                                  {"--restart", !run.restart.empty()},
                                                  {"--repair", !run.repair.empty()},
                                                  {"--lost-nodes", run.lost_nodes > 0},
                                                  {"--objective goodput", run.objective == PlanAim::goodput}};
    for (const auto& [word, given] : words) {
      if (given)
        throw InputError(fmt::format("{}: needs how often devices fail; give --mtbf, for example 50000h", word));
    }
  } else if (!run.deadline.empty() || !run.budget.empty()) {
    throw InputError("--mtbf: not together with --deadline or --budget; ask for the plan of so many devices");
  }
}

ExitCode plan_job(const PlanRun& run, Session& session) {
  ReportOptions report = session.report();
  report.tokens = run.tokens;
  report.price_per_device_hour = run.price;
  SearchOptions options = run.options;
  options.why = !run.no_why;
  if (!session.json && isatty(STDERR_FILENO) != 0) options.progress = print_progress;
  const Interrupt interrupt;
  options.stop = interrupt.flag();
  check_largest_words(run);
  check_failure_words(run);
  if (has_pools(run.question.cluster)) return plan_each_pool(run, options, report, session);
  if (run.largest) return plan_largest(run, options, report, session);
  if (!run.deadline.empty() || !run.budget.empty()) {
    if (run.sensitivity)
      throw InputError("--sensitivity: is of one number of devices; leave out --deadline and --budget");
    return plan_demand(run, options, report, session);
  }
  if (run.objective == PlanAim::devices) {
    throw InputError("--objective devices: needs what so many devices are to reach; give --deadline and --tokens");
  }
  const TrainingJob job = read_small_job(for_target(run.question, options.target));
  if (run.objective == PlanAim::cost && run.price == 0 && job.price_per_device_hour() == 0) {
    throw InputError(
        "--objective cost: what a device-hour costs is missing; give --price, or `price` in the cluster's file");
  }
  if (!run.mtbf.empty()) {
    if (run.sensitivity) throw InputError("--sensitivity: not together with --mtbf; ask one after the other");
    const FailureAnswer answer = plan_with_failures(job, failures_of(run, job), options);
    if (!answer.answer.plans.empty()) {
      return write_answer(run, answer, answer.answer.plans.front(), report, session);
    }
    return no_answer(run, answer.answer, report, session);
  }
  const auto start = std::chrono::steady_clock::now();
  Answer answer = find_plan(job, options);
  if (answer.plans.empty()) return no_answer(run, answer, report, session);
  if (run.sensitivity) {
    // One limit for both.
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (options.time_limit_s > 0) options.time_limit_s = std::max(1e-3, options.time_limit_s - taken.count());
    answer.sensitivity = find_sensitivity(job, options);
  }
  const ExitCode code = write_answer(run, answer, answer.plans.front(), report, session);
  if (run.sensitivity && !answer.sensitivity && !session.json) {
    session.out += "The time was over before it was found what more of every resource would buy.\n";
  }
  return code;
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
  app.add_option("--micro-batch,--mbs", options.micro_batch, "auto, or sizes such as 1,2,4")->type_name("auto|LIST");
  app.add_option("--set", options.set,
                 "admit only some values: tp=8, pp=1..16, zero=0,1, sp=1, recompute=none, …; --tp 8 is the same")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_word(app, "--target", plan_targets(), options.target,
           "plans that this framework can run, modelled with its stack; any: all there are; default: the stack's own");
  add_choice(app, "--objective", run.objective,
             {{"time", PlanAim::time},
              {"device-hours", PlanAim::device_hours},
              {"cost", PlanAim::cost},
              {"devices", PlanAim::devices},
              {"goodput", PlanAim::goodput}},
             "what is made least, or with --mtbf most: goodput; default time, with --deadline devices");
  add_enum(
      app, "--offload", options.offload, kOffloadWords,
      "quarters of the optimizer's state, and what modules keep for backward, may wait on the host: where nothing fits "
      "without, where that is fastest, or never; default needed");
  add_enum(
      app, "--judge", options.judge, kJudgeWords,
      "what plans are compared by: the formula of the search, or the simulated network, on which those are executed "
      "that the formula estimates below the best; default simulation");
  add_integer(app, "--max-devices", options.max_devices, kDevices, "use at most so many devices");
  add_integer(app, "--top", options.top, kTop, "how many plans, each of another kind (tp, cp, ep, etp, pp, schedule)");
  app.add_option("--tie", options.tie_percent,
                 "of plans within so many percent of the proven optimum take the simplest; default 0.5, 0: the fastest")
      ->type_name("PERCENT");
  add_integer(app, "--threads", options.threads, kThreads, "default: one per core");
  add_seconds(app, "--time-limit", options.time_limit_s, "seconds after which the best plan so far is taken");
  app.add_option("--instance", run.instance, "a layer-profile instance instead of model and cluster")
      ->type_name("FILE");
  app.add_option("-o,--output", run.output, "write the plan here (nest.plan/3)")->type_name("FILE");
  app.add_option("--html", run.html, "write a report with drawings here: one file that needs nothing else")
      ->type_name("FILE");
  app.add_flag("--no-why", run.no_why, "do not search for alternatives to compare with");
  app.add_flag(
      "--sensitivity", run.sensitivity,
      "what 10 % more of every resource would buy: FLOP/s, memory, each level's bandwidth and latency, host time");
  add_tokens(app, run.tokens);
  app.add_option(
         "--deadline", run.deadline,
         "the time that --tokens may take, e.g. 30d: the fewest devices that meet it, or what --objective says; "
         "--devices is then the most that may be used")
      ->type_name("DURATION");
  app.add_option("--budget", run.budget,
                 "the money that --tokens may cost, e.g. 1M: the fastest plan for it, or what --objective says")
      ->type_name("AMOUNT");
  app.add_option(
         "--mtbf", run.mtbf,
         "mean time between failures of a device, e.g. 50000h (or 6000h/node): how often to save state, and how "
         "much of the time trains")
      ->type_name("DURATION");
  app.add_option("--checkpoint-bandwidth", run.checkpoint_bandwidth,
                 "that all devices together save and read state at, e.g. 2TB/s")
      ->type_name("RATE");
  app.add_option("--restart", run.restart, "from a failure to reading the state again; default 10min")
      ->type_name("DURATION");
  app.add_option("--repair", run.repair, "that a failed node is away, e.g. 24h: how many spares")
      ->type_name("DURATION");
  add_integer(app, "--lost-nodes", run.lost_nodes, kLostNodes,
              "plans for 1 … so many nodes less, and the bytes that must move to get there");
  add_enum(app, "--largest", run.largest, kLargestWords,
           "the longest sequence, the largest batch in one pass or the most layers with which some plan fits");
  add_integer(app, "--multiple-of", run.multiple_of, kMultiples,
              "values that --largest looks at: multiples of so many; default 1,024 tokens, 1 layer");
  add_price(app, run.price);
  add_dimension_options(app, options.set, true);
}

}  // namespace

Command add_plan(CLI::App& program) {
  CLI::App* app = program.add_subcommand("plan", "find the fastest plan that fits, and prove it");
  const auto run = std::make_shared<PlanRun>();
  add_job_options(*app, run->question, true);
  add_plan_options(*app, *run);
  app->footer(
      "  nest plan llama3-70b --cluster dgx-h100 --gpus 64 \\\n"
      "      --global-batch 512 -o plan.json\n"
      "  nest plan mixtral-8x7b --nodes 4 --seq 32k --tp 1..8 --zero 1 \\\n"
      "      --target megatron --top 5\n"
      "  nest plan llama3-8b --tokens 1T --deadline 10d --price 2.50\n"
      "  nest plan llama3-8b --gpus 8 --largest seq\n"
      "  nest plan path/to/config.json --cluster my.yaml --tokens 1T --price 2.5\n"
      "  nest plan --instance profile.json --json");
  return {app,
          [run, app](Session& session) {
            for (const char* other : {"--model", "--cluster", "--devices", "--global-batch", "--set", "--time-limit"}) {
              if (run->instance.empty() || app->count(other) == 0) continue;
              throw InputError(fmt::format("{}: has no effect on an instance; leave out one of them", other));
            }
            if (run->objective == PlanAim::device_hours || run->objective == PlanAim::cost) {
              run->options.objective = PlanObjective::device_hours;
            }
            return run->instance.empty() ? plan_job(*run, session) : solve_instance(*run, session);
          },
          model_names};
}

}  // namespace nest::app
