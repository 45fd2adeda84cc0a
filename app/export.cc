// nest export: a plan in the words of the framework that runs it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "command.h"
#include "cost/evaluate.h"
#include "export_chakra.h"
#include "exporter/deepspeed.h"
#include "exporter/framework.h"
#include "exporter/megatron.h"
#include "exporter/nemo.h"
#include "exporter/rankfile.h"
#include "exporter/torchtitan.h"
#include "job_options.h"
#include "load/input.h"
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

enum class Target : std::uint8_t { megatron, nemo, deepspeed, torchtitan, rankfile, chakra };

struct ExportQuestion {
  std::string plan_file;
  Target target = Target::megatron;
  bool target_given = false;
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

const std::vector<std::string> kTargets = {"megatron", "nemo", "deepspeed", "torchtitan", "rankfile", "chakra"};

// Formats of each target, the default first.
const std::vector<std::string>& formats_of(Target target) {
  static const std::vector<std::vector<std::string>> kFormats = {
      {"args", "script"},
      {"bridge", "nemo2"},
      {"json"},
      {"toml"},
      {"slurm", "slurm-hosts", "openmpi", "torchrun", "json"},
      {"et"}};
  return kFormats[static_cast<std::size_t>(target)];
}

std::size_t format_index(const ExportQuestion& question) {
  const std::vector<std::string>& formats = formats_of(question.target);
  if (question.format.empty()) return 0;
  const auto found = std::find(formats.begin(), formats.end(), question.format);
  if (found == formats.end()) {
    throw InputError(fmt::format("--format: `{}` is none of {}, the formats of --to {}{}", clip(question.format, 40),
                                 join_words(formats), kTargets[static_cast<std::size_t>(question.target)],
                                 did_you_mean(question.format, formats)));
  }
  return static_cast<std::size_t>(found - formats.begin());
}

// The plan that is written, and what became of the one that was asked for.
struct Choice {
  LoadedJob loaded;
  Plan plan;
  std::vector<std::string> cannot;
  double asked_s = 0;
  bool asked_fits = true;
  bool proven = true;
  bool without_profile = false;  // what was asked for was measured at a precision that the framework does not have

  double excess() const { return plan.prediction.iteration_s / asked_s - 1; }
};

Choice read_choice(const ExportQuestion& question) {
  Choice choice;
  choice.plan = read_plan(parse_json(source_name(question.plan_file), read_text(question.plan_file)));
  choice.loaded = load_job(choice.plan);
  load_profile(question.profile, choice.loaded.job);
  const Job& job = choice.loaded.job;
  if (const std::string reason = refuse_strategy(job, choice.plan.strategy, choice.plan.stages); !reason.empty()) {
    throw InputError(question.plan_file + ": " + reason);
  }
  const Evaluation evaluation = evaluate(job, choice.plan.strategy, choice.plan.stages);
  describe_job(choice.loaded, choice.plan);
  choice.plan.stages = evaluation.stages;
  choice.plan.prediction = evaluation.prediction;
  choice.asked_s = evaluation.prediction.iteration_s;
  choice.asked_fits = evaluation.fits;
  return choice;
}

// Replaces the plan by the nearest one that the framework runs. False when there is none.
bool come_near(const ExportQuestion& question, Framework framework, Choice& choice) {
  choice.cannot = obstacles(framework, choice.loaded.job, choice.plan.strategy, choice.plan.stages);
  const std::string precision = precision_obstacle(framework, choice.loaded.job.precision);
  if (!precision.empty()) {
    choice.cannot.insert(choice.cannot.begin(), precision);
    choice.plan.run.precision = to_string(usable_precision(framework, choice.loaded.job.precision));
    choice.loaded = load_job(choice.plan);
    choice.without_profile = !question.profile.empty();
  }
  if (choice.cannot.empty()) return true;
  SearchOrder order;
  order.threads = static_cast<int>(question.threads);
  if (question.time_limit_s > 0) order.time_limit_s = question.time_limit_s;
  const std::optional<NearestPlan> nearest = nearest_plan(framework, choice.loaded.job, order);
  if (!nearest) return false;
  choice.proven = nearest->proven;
  choice.plan.strategy = nearest->plan.strategy;
  choice.plan.stages = nearest->plan.evaluation.stages;
  choice.plan.prediction = nearest->plan.evaluation.prediction;
  choice.plan.search.reset();
  return true;
}

struct Written {
  std::string text;
  Json json;  // the same for programs, under the names below
  std::vector<std::string> notes;
  std::vector<std::pair<std::string, std::string>> environment;
};

Json option_list(const std::vector<LaunchOption>& options) {
  Json list = Json::array();
  for (const LaunchOption& option : options) {
    list.push_back(option.name);
    for (const std::string& value : option.values) list.push_back(value);
  }
  return list;
}

Written write_megatron(const ExportTask& task, bool script, const std::optional<LaunchOrder>& launch) {
  if (script && !launch) {
    throw InputError(
        "--format script: hosts of this cluster cannot be started one by one for this plan; --format args and --to "
        "rankfile say the same in two files");
  }
  const MegatronExport exported = export_megatron(task);
  Written written;
  if (script) {
    const std::string devices =
        launch->hosts.natural_devices() ? "" : fmt::format("{}", fmt::join(launch->hosts.local_devices, ","));
    written.text = launch_script(exported, static_cast<std::int64_t>(launch->hosts.hosts.size()),
                                 launch->hosts.ranks_per_host, devices);
  } else {
    written.text = arguments_text(exported.options);
  }
  written.json["options"] = option_list(exported.options);
  written.notes = exported.notes;
  written.environment = exported.environment;
  return written;
}

Written write_framework(const ExportQuestion& question, const ExportTask& task,
                        const std::optional<LaunchOrder>& launch) {
  const std::size_t format = format_index(question);
  Written written;
  switch (question.target) {
    case Target::megatron: return write_megatron(task, format == 1, launch);
    case Target::nemo: {
      const NemoExport exported = export_nemo(task, format == 1 ? NemoForm::nemo2 : NemoForm::bridge);
      written.text = overrides_text(exported);
      written.json["overrides"] = Json::array();
      for (const auto& [key, value] : exported.overrides) written.json["overrides"].push_back(key + "=" + value);
      written.notes = exported.notes;
      written.environment = exported.environment;
      break;
    }
    case Target::deepspeed: {
      const DeepspeedExport exported = export_deepspeed(task);
      written.text = exported.config.dump(2) + "\n";
      written.json["config"] = exported.config;
      if (!exported.arguments.empty()) {
        written.json["options"] = option_list(exported.arguments);
        std::string arguments;
        for (const LaunchOption& option : exported.arguments) {
          arguments += " " + option.name + (option.values.empty() ? "" : " " + option.values.front());
        }
        written.notes.push_back("Megatron-DeepSpeed takes, beside the file:" + arguments);
      }
      written.notes.insert(written.notes.begin(), exported.notes.begin(), exported.notes.end());
      break;
    }
    case Target::torchtitan: {
      TorchtitanExport exported = export_torchtitan(task);
      written.text = std::move(exported.toml);
      written.json["toml"] = written.text;
      written.notes = std::move(exported.notes);
      break;
    }
    case Target::rankfile:
    case Target::chakra: break;
  }
  return written;
}

// What the plan costs as the framework is usually run, where it was priced as something else.
std::string stack_note(Framework framework, const Choice& choice) {
  const MemoryModel memory = choice.loaded.job.stack.memory;
  const bool own = framework == Framework::torchtitan ? memory == MemoryModel::fsdp
                   : framework == Framework::deepspeed
                       ? memory == MemoryModel::megatron_deepspeed || memory == MemoryModel::plain
                       : memory == MemoryModel::megatron;
  if (own) return {};
  Plan other = choice.plan;
  other.run.stack = usual_stack(framework);
  const LoadedJob loaded = load_job(other);
  const Evaluation evaluation = evaluate(loaded.job, other.strategy, other.stages);
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

std::string report_text(Framework framework, const Choice& choice, const Written& written,
                        const std::optional<LaunchOrder>& launch) {
  std::string text = verdict_text(framework, choice);
  if (!choice.asked_fits && choice.cannot.empty()) text += "The plan does not fit in memory: see nest eval.\n";
  if (launch && !launch->hosts.natural_hosts()) {
    text += "Hosts must be started in the plan's order: nest export PLAN --to rankfile\n";
  }
  if (!launch && !choice.loaded.job.cluster.torus) {
    text += "Ranks must be placed one by one: nest export PLAN --to rankfile\n";
  }
  for (const auto& [name, value] : written.environment) text += fmt::format("Set {}={}.\n", name, value);
  for (const std::string& note : written.notes) text += wrap_after("Note: ", note) + "\n";
  if (const std::string note = stack_note(framework, choice); !note.empty()) text += wrap_after("Note: ", note) + "\n";
  return text;
}

Json report_json(const ExportQuestion& question, const Choice& choice, const Written& written,
                 const std::vector<Host>& hosts, const std::optional<LaunchOrder>& launch) {
  Json json = {
      {"schema", "nest.export/1"},           {"framework", kTargets[static_cast<std::size_t>(question.target)]},
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

ExitCode export_ranks(const ExportQuestion& question, Session& session) {
  const Choice choice = read_choice(question);
  const std::vector<Host> hosts = hosts_of(choice.loaded.job.cluster, question.per_host);
  const std::optional<LaunchOrder> launch = launch_order(hosts, choice.plan.strategy);
  const RankfileTask task{choice.plan.strategy, hosts, launch ? launch->order : RankOrder::stages_last,
                          question.cores_per_device};
  const auto form =
      static_cast<RankfileForm>(session.json ? formats_of(Target::rankfile).size() - 1 : format_index(question));
  const std::string text = rankfile_text(task, form);
  if (question.output.empty()) {
    session.out = text;
    return kExitOk;
  }
  write_file_atomically(question.output, text);
  session.out = fmt::format("Written to {}: {} ranks on {} hosts, rank order {}.\n", question.output,
                            format_integer(choice.plan.strategy.devices_used()),
                            format_integer(static_cast<std::int64_t>(hosts.size())), to_string(task.order));
  return kExitOk;
}

ExitCode export_traces(const ExportQuestion& question, Session& session) {
  if (question.output.empty()) throw InputError("-o: is missing; --to chakra writes a folder, one file per rank");
  const Choice choice = read_choice(question);
  const ChakraExport traces(choice.loaded.job, choice.plan.strategy, choice.plan.stages);
  const WrittenTraces written = write_traces(traces, question.ranks, question.output);
  session.out = session.json ? to_text(traces_json(traces, written, question.output))
                             : traces_text(traces, written, question.output);
  if (!session.json && !choice.asked_fits) session.out += "The plan does not fit in memory: see nest eval.\n";
  return kExitOk;
}

ExitCode export_plan(const ExportQuestion& question, Session& session) {
  static_cast<void>(format_index(question));  // a wrong format is refused before anything is searched
  if (question.target == Target::chakra) return export_traces(question, session);
  if (question.target == Target::rankfile) return export_ranks(question, session);
  const auto framework = static_cast<Framework>(question.target);
  Choice choice = read_choice(question);
  if (!come_near(question, framework, choice)) {
    std::string text = fmt::format("nest: no plan that {} can run fits; it\n", to_string(framework));
    for (const std::string& reason : choice.cannot) text += wrap_after("  - ", reason) + "\n";
    write_stderr(text);
    return kExitNoPlan;
  }
  const Job& job = choice.loaded.job;
  std::vector<Host> hosts;
  std::optional<LaunchOrder> launch;
  if (!job.cluster.torus) {
    hosts = hosts_of(job.cluster, question.per_host);
    launch = launch_order(hosts, choice.plan.strategy);
  }
  const ExportTask task{job, choice.plan.strategy, choice.plan.stages, launch ? launch->order : RankOrder::stages_last,
                        !question.no_model};
  Written written = write_framework(question, task, launch);
  if (choice.without_profile) {
    written.notes.emplace_back(
        "the profile holds for another precision: the plan that is written is priced without it");
  }
  const std::string report = report_text(framework, choice, written, launch);
  if (!question.output.empty()) write_file_atomically(question.output, written.text);
  if (session.json) {
    session.out = to_text(report_json(question, choice, written, hosts, launch));
  } else if (question.output.empty()) {
    session.out = written.text;
    write_stderr(report);
  } else {
    session.out = report + fmt::format("Written to {}.\n", question.output);
  }
  return kExitOk;
}

}  // namespace

Command add_export(CLI::App& program) {
  CLI::App* app = program.add_subcommand("export", kDescription);
  app->footer(kExamples);
  const auto question = std::make_shared<ExportQuestion>();
  app->add_option("PLAN", question->plan_file, "a plan file (nest plan -o), or -")->group("Arguments");
  app->option_defaults()->group("What is written");
  add_word(
      *app, "--to", kTargets,
      [question](std::size_t index) {
        question->target = static_cast<Target>(index);
        question->target_given = true;
      },
      "the framework, or rankfile: which rank runs on which host and device, or chakra: execution traces of a step");
  app->add_option("--format", question->format,
                  "megatron: args, script; nemo: bridge, nemo2; rankfile: slurm, slurm-hosts, openmpi, torchrun, json")
      ->type_name("NAME");
  app->add_option("-o,--output", question->output, "write it here; what there is to know goes to the terminal")
      ->type_name("FILE");
  app->add_option("--ranks", question->ranks, "chakra: whose traces, 0,8,16-23 or all")->type_name("LIST");
  app->add_flag("--no-model", question->no_model, "only what the plan decides, without the sizes of the model");
  add_integer(*app, "--per-host", question->per_host, 1, 1 << 20,
              "devices of one host, where that is less than the cluster's first level");
  add_integer(*app, "--cores-per-device", question->cores_per_device, 1, 1 << 12,
              "openmpi: bind every rank to so many cores");
  app->option_defaults()->group("How it is priced");
  add_profile_option(*app, question->profile);
  app->option_defaults()->group("Search for the nearest plan");
  add_integer(*app, "--threads", question->threads, 1, 1024, "default: one per core");
  app->add_option("--time-limit", question->time_limit_s, "seconds of each search")
      ->check(CLI::PositiveNumber)
      ->type_name("S");
  return {app,
          [question](Session& session) {
            if (question->plan_file.empty()) throw InputError("PLAN: a plan file is missing; nest plan -o writes one");
            if (!question->target_given) {
              throw InputError(fmt::format("--to: is missing; allowed are {}", join_words(kTargets)));
            }
            return export_plan(*question, session);
          },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest
