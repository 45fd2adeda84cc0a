// nest export: a plan in the words of the framework that runs it.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "command.h"
#include "cost/evaluate.h"
#include "exporter/exporters.h"
#include "exporter/framework.h"
#include "job_options.h"
#include "load/input.h"
#include "new_folder.h"
#include "options.h"
#include "output.h"
#include "plan/plan_json.h"
#include "plan/strategy_text.h"
#include "report/json.h"
#include "report/layout.h"

namespace nest {
namespace {

constexpr const char* kDescription =
    "write a plan out for the framework that runs it\n"
    "What a framework cannot be told is said, with what that costs: then the file holds the fastest plan that it can "
    "run.";

constexpr const char* kExamples =
    "  nest export plan.json --to megatron -o megatron.args\n"
    "  nest export plan.json --to torchtitan > train.toml\n"
    "  nest export plan.json --to rankfile --format torchrun\n"
    "  nest export plan.json --to chakra -o traces     # for network simulators";

struct ExportQuestion {
  std::string plan_file;
  const Exporter* exporter = nullptr;
  std::string format;
  std::string output;
  std::string ranks = "all";
  std::string profile;
  bool no_model = false;
  std::int64_t per_host = 0;
  std::int64_t cores_per_device = 0;
  std::int64_t threads = 0;
  double time_limit_s = 0;
};

// The plan that is written, and what became of the one that was asked for.
struct Choice {
  Job job;
  Plan plan;
  std::vector<std::string> cannot;
  double asked_s = 0;
  bool asked_fits = true;
  bool proven = true;
  bool without_profile = false;  // what was asked for was measured at a precision that the framework does not have

  double excess() const { return plan.prediction.iteration_s / asked_s - 1; }
};

Choice read_choice(const ExportQuestion& question) {
  OpenedPlan priced = price_plan(question.plan_file, question.profile);
  Choice choice;
  choice.asked_s = priced.plan.prediction.iteration_s;
  choice.asked_fits = priced.plan.fits;
  choice.plan = std::move(priced.plan);
  choice.job = std::move(priced.job);
  return choice;
}

// Replaces the plan by the nearest one that the framework runs. False when there is none.
bool come_near(const ExportQuestion& question, Framework framework, Choice& choice) {
  choice.cannot = obstacles(framework, choice.job, choice.plan.strategy, choice.plan.stages);
  const std::string precision = precision_obstacle(framework, choice.job.run.precision);
  if (!precision.empty()) {
    choice.cannot.insert(choice.cannot.begin(), precision);
    choice.plan.run.precision = usable_precision(framework, choice.job.run.precision);
    choice.without_profile = !choice.plan.profile.empty();
    choice.plan.profile = {};
    choice.job = load_job(choice.plan);
  }
  if (choice.cannot.empty()) return true;
  SearchOrder order;
  order.threads = static_cast<int>(question.threads);
  if (question.time_limit_s > 0) order.time_limit_s = question.time_limit_s;
  const std::optional<NearestPlan> nearest = nearest_plan(framework, choice.job, order);
  if (!nearest) return false;
  choice.proven = nearest->proven;
  choice.plan = nearest->plan;
  choice.plan.search.reset();
  return true;
}

// What the plan costs as the framework is usually run, where it was priced as something else.
std::string stack_note(Framework framework, const Choice& choice) {
  const FrameworkRules& rules = rules_of(framework);
  if (rules.is_own(choice.job.stack.memory)) return {};
  Plan other = choice.plan;
  other.run.stack = rules.usual_stack;
  other.stack = other.profile = {};
  const Plan evaluation = evaluate(load_job(other), other.strategy, other.stages);
  if (!evaluation.fits) {
    return fmt::format("prices are those of stack {}; priced as {}, the plan does not fit: {}; plan with --stack {}",
                       choice.plan.run.stack, other.run.stack, evaluation.misfit, other.run.stack);
  }
  return fmt::format("prices are those of stack {}; priced as {}, a step takes {}", choice.plan.run.stack,
                     other.run.stack, format_duration(evaluation.prediction.iteration_s));
}

std::string verdict_text(Framework framework, const Choice& choice) {
  const char* name = to_string(framework);
  const std::string step = format_duration(choice.plan.prediction.iteration_s);
  if (choice.cannot.empty()) return fmt::format("{} runs this plan as it is: {} per step.\n", name, step);
  const std::string cost = fmt::format("{:+.1f} %", 100 * choice.excess());
  std::string text;
  if (choice.cannot.size() == 1) {
    text = wrap_after("", fmt::format("{} {}: {}", name, choice.cannot.front(), cost)) + "\n";
  } else {
    text = fmt::format("{} cannot run this plan as it is: {}\n", name, cost);
    for (const std::string& reason : choice.cannot) text += wrap_after("  - ", reason) + "\n";
  }
  text += wrap_after("", fmt::format("The fastest plan that it can run{}: {}, {} per step instead of {}.",
                                     choice.proven ? " (proven)" : ", as far as was searched",
                                     strategy_text(choice.plan.strategy), step, format_duration(choice.asked_s))) +
          "\n";
  return text;
}

std::string report_text(Framework framework, const Choice& choice, const ExportedText& written,
                        const std::optional<LaunchOrder>& launch) {
  std::string text = verdict_text(framework, choice);
  if (!choice.asked_fits && choice.cannot.empty()) text += "The plan does not fit in memory: see nest eval.\n";
  if (launch && !launch->hosts.natural_hosts()) {
    text += "Hosts must be started in the plan's order: nest export PLAN --to rankfile\n";
  }
  if (!launch && !choice.job.cluster.torus) {
    text += "Ranks must be placed one by one: nest export PLAN --to rankfile\n";
  }
  for (const auto& [name, value] : written.environment) text += fmt::format("Set {}={}.\n", name, value);
  for (const std::string& note : written.notes) text += wrap_after("Note: ", note) + "\n";
  if (const std::string note = stack_note(framework, choice); !note.empty()) text += wrap_after("Note: ", note) + "\n";
  return text;
}

Json report_json(const ExportQuestion& question, const Choice& choice, const ExportedText& written,
                 const std::vector<Host>& hosts, const std::optional<LaunchOrder>& launch) {
  Json json = {{"schema", "nest.export/1"},           {"framework", question.exporter->name},
               {"as_asked", choice.cannot.empty()},   {"cannot", choice.cannot},
               {"asked_iteration_s", choice.asked_s}, {"iteration_s", choice.plan.prediction.iteration_s},
               {"excess", choice.excess()},           {"proven", choice.proven}};
  if (launch) {
    json["rank_order"] = to_string(launch->order);
    json["ranks_per_host"] = launch->hosts.ranks_per_host;
    for (const std::int64_t host : launch->hosts.hosts) {
      json["hosts"].push_back(hosts[static_cast<std::size_t>(host)].name);
    }
  }
  json["environment"] = Json::object();
  for (const auto& [name, value] : written.environment) json["environment"][name] = value;
  json["notes"] = written.notes;
  json.update(written.json);
  json["plan"] = plan_to_json(choice.plan);
  return json;
}

// A rank file: nothing of it depends on prices, so that a plan that does not fit is written too.
ExitCode export_ranks(const ExportQuestion& question, Session& session) {
  const Choice choice = read_choice(question);
  ExportTask task{choice.job, choice.plan.strategy, choice.plan.stages};
  task.hosts = hosts_of(choice.job.cluster, question.per_host);
  const std::optional<LaunchOrder> launch = launch_order(task.hosts, choice.plan.strategy);
  if (launch) task.order = launch->order;
  task.cores_per_device = question.cores_per_device;
  const std::size_t format = format_index(*question.exporter, session.json ? "json" : question.format);
  const std::string text = question.exporter->write(task, format).text;
  if (question.output.empty()) {
    session.out = text;
    return kExitOk;
  }
  write_file_atomically(question.output, text);
  session.out = fmt::format("Written to {}: {} ranks on {} hosts, rank order {}.\n", question.output,
                            format_integer(choice.plan.strategy.devices_used()),
                            format_integer(static_cast<std::int64_t>(task.hosts.size())), to_string(task.order));
  return kExitOk;
}

ExitCode export_files(const ExportQuestion& question, Session& session) {
  const char* name = question.exporter->name;
  if (question.output.empty()) {
    throw InputError(fmt::format("-o: is missing; --to {} writes a folder, one file per rank", name));
  }
  const Choice choice = read_choice(question);
  ExportTask task{choice.job, choice.plan.strategy, choice.plan.stages};
  task.ranks = question.ranks;
  std::optional<NewFolder> folder;  // not before there is something to put into it
  const ExportedFiles files =
      question.exporter->write_files(task, [&](const std::string& file, const std::string& content) {
        if (!folder) folder.emplace(question.output);
        folder->write(file, content);
      });
  folder->complete();
  if (session.json) {
    Json json = {{"schema", "nest.export/1"}, {"framework", name}, {"folder", question.output}};
    json.update(files.json);
    session.out = to_text(json);
    return kExitOk;
  }
  session.out = fmt::format("Written to {}: {}", question.output, files.summary);
  if (!choice.asked_fits) session.out += "The plan does not fit in memory: see nest eval.\n";
  return kExitOk;
}

ExitCode export_plan(const ExportQuestion& question, Session& session) {
  const Exporter& exporter = *question.exporter;
  const std::size_t format = format_index(exporter, question.format);  // refused before anything is searched
  if (exporter.write_files != nullptr) return export_files(question, session);
  if (!exporter.framework) return export_ranks(question, session);
  const Framework framework = *exporter.framework;
  Choice choice = read_choice(question);
  if (!come_near(question, framework, choice)) {
    std::string text = fmt::format("nest: no plan that {} can run fits; it\n", to_string(framework));
    for (const std::string& reason : choice.cannot) text += wrap_after("  - ", reason) + "\n";
    write_stderr(text);
    return kExitNoPlan;
  }
  const Job& job = choice.job;
  ExportTask task{job, choice.plan.strategy, choice.plan.stages};
  std::optional<LaunchOrder> launch;
  if (!job.cluster.torus) {
    task.hosts = hosts_of(job.cluster, question.per_host);
    launch = launch_order(task.hosts, choice.plan.strategy);
  }
  if (launch) {
    task.order = launch->order;
    task.launch = &*launch;
  }
  task.with_model = !question.no_model;
  ExportedText written = exporter.write(task, format);
  if (choice.without_profile) {
    written.notes.emplace_back(
        "the profile holds for another precision: the plan that is written is priced without it");
  }
  const std::string report = report_text(framework, choice, written, launch);
  if (!question.output.empty()) write_file_atomically(question.output, written.text);
  if (session.json) {
    session.out = to_text(report_json(question, choice, written, task.hosts, launch));
  } else if (question.output.empty()) {
    session.out = written.text;
    write_stderr(report);
  } else {
    session.out = report + fmt::format("Written to {}.\n", question.output);
  }
  return kExitOk;
}

// "the framework, or rankfile: which rank …, or chakra: …"
std::string targets_text() {
  std::string text = "the framework";
  for (const Exporter& row : exporters()) {
    if (!row.framework) text += fmt::format(", or {}: {}", row.name, row.words);
  }
  return text;
}

}  // namespace

Command add_export(CLI::App& program) {
  CLI::App* app = program.add_subcommand("export", kDescription);
  app->footer(kExamples);
  const auto question = std::make_shared<ExportQuestion>();
  app->add_option("PLAN", question->plan_file, "a plan file (nest plan -o), or -")->group("Arguments");
  app->option_defaults()->group("What is written");
  add_word(
      *app, "--to", exporter_names(), [question](std::size_t index) { question->exporter = &exporters()[index]; },
      targets_text());
  app->add_option("--format", question->format, formats_text())->type_name("NAME");
  app->add_option("-o,--output", question->output, "write it here; what there is to know goes to the terminal")
      ->type_name("FILE");
  app->add_option("--ranks", question->ranks, "chakra: whose traces, 0,8,16-23 or all")->type_name("LIST");
  app->add_flag("--no-model", question->no_model, "only what the plan decides, without the sizes of the model");
  add_integer(*app, "--per-host", question->per_host, kPerHost,
              "devices of one host, where that is less than the cluster's first level");
  add_integer(*app, "--cores-per-device", question->cores_per_device, kCores,
              "openmpi: bind every rank to so many cores");
  app->option_defaults()->group("How it is priced");
  add_profile_option(*app, question->profile);
  app->option_defaults()->group("Search for the nearest plan");
  add_integer(*app, "--threads", question->threads, kThreads, "default: one per core");
  app->add_option("--time-limit", question->time_limit_s, "seconds of each search")
      ->check(CLI::PositiveNumber)
      ->type_name("S");
  return {app,
          [question](Session& session) {
            if (question->plan_file.empty()) throw InputError("PLAN: a plan file is missing; nest plan -o writes one");
            if (question->exporter == nullptr) {
              throw InputError(fmt::format("--to: is missing; allowed are {}", join_words(exporter_names())));
            }
            return export_plan(*question, session);
          },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest
