// nest export: a plan in the words of the framework that runs it.
#include "nest/export.h"
#include "nest/search.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "command.h"
#include "interrupt.h"
#include "job_options.h"
#include "nest/error.h"
#include "nest/text.h"
#include "new_folder.h"
#include "options.h"
#include "output.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "write a plan out for the framework that runs it\n"
    "What a framework cannot be told is said, with what that costs: then the file holds the fastest plan that it can "
    "run.";

constexpr const char* kExamples =
    "  nest export plan.json --to megatron -o megatron.args\n"
    "  nest export plan.json --to torchtitan > train.toml\n"
    "  nest export plan.json --to job --format torchtitan -o job    # a folder for sbatch\n"
    "  nest export plan.json --to rankfile --format torchrun\n"
    "  nest export plan.json --to chakra -o traces     # for network simulators";

struct ExportRun {
  std::string plan_file;
  std::string target;
  std::string output;
  Input profile;
  bool no_model = false;
  ExportOptions options;
};

// What there is to know about a framework's file.
std::string about_text(const Export& exported) {
  std::string text = exported.about;
  // Frameworks whose memory is known are told another plan.
  if (!exported.fits && exported.cannot.empty()) text += "The plan does not fit in memory: see nest eval.\n";
  const std::string ranks = fmt::format("nest export PLAN --to rankfile --target {}\n", exported.framework);
  if (exported.placing == Export::Placing::hosts_in_order) {
    text += "Hosts must be started in the plan's order: " + ranks;
  }
  if (exported.placing == Export::Placing::rank_by_rank) text += "Ranks must be placed one by one: " + ranks;
  for (const auto& [name, value] : exported.environment) text += fmt::format("Set {}={}.\n", name, value);
  for (const std::string& note : exported.notes) text += wrap_after("Note: ", note) + "\n";
  return text;
}

ExitCode say_none(const Export& exported, Session& session) {
  const std::string inside =
      exported.set.empty() ? ""
                           : fmt::format(" inside {}, which the plan was searched with,", join_words(exported.set));
  session.failure = fmt::format("no plan that {} can run{} fits; it", exported.framework, inside);
  for (const std::string& reason : exported.cannot) session.failure += '\n' + wrap_after("  - ", reason);
  return kExitNoPlan;
}

ExitCode export_files(const ExportRun& run, const Plan& plan, ExportOptions options, Session& session) {
  if (run.output.empty()) {
    throw InputError(fmt::format("-o: is missing; --to {} writes a folder of files", run.target));
  }
  std::optional<NewFolder> folder;  // not before there is something to put into it
  options.write = [&](const std::string& name, const std::string& content) {
    if (!folder) folder.emplace(run.output);
    folder->write(name, content);
  };
  options.folder = run.output;
  const Export exported = export_plan(plan, run.target, options);
  if (!exported.found) return say_none(exported, session);
  folder->complete();
  if (session.json) {
    session.out = to_json(exported);
    return kExitOk;
  }
  session.out = fmt::format("Written to {}: {}", run.output, exported.about);
  if (!exported.fits && exported.cannot.empty()) session.out += "The plan does not fit in memory: see nest eval.\n";
  for (const std::string& note : exported.notes) session.out += wrap_after("Note: ", note) + "\n";
  return kExitOk;
}

ExitCode run_export(const ExportRun& run, Session& session) {
  if (run.plan_file.empty()) throw InputError("PLAN: a plan file is missing; nest plan -o writes one");
  if (run.target.empty()) {
    throw InputError(fmt::format("--to: is missing; allowed are {}", join_words(export_targets())));
  }
  const Interrupt interrupt;
  ExportOptions options = run.options;
  options.model = !run.no_model;
  options.stop = interrupt.flag();
  const Plan plan = read_plan(run.plan_file, run.profile);
  if (exports_folder(run.target)) return export_files(run, plan, options, session);
  const Export exported = export_plan(plan, run.target, options);
  if (!exported.found) return say_none(exported, session);
  const bool ranks = run.target == "rankfile";
  const std::string file = ranks && session.json ? to_json(exported) : exported.text;
  if (!run.output.empty()) write_file_atomically(run.output, file);
  if (session.json && (!ranks || run.output.empty())) {
    session.out = to_json(exported);
  } else if (run.output.empty()) {
    session.out = file;
    if (!ranks) write_stderr(about_text(exported));
    if (ranks && !exported.cannot.empty()) {
      write_stderr(exported.about + "The ranks of the plan as it is: --target any\n");
    }
  } else {
    session.out = ranks ? fmt::format("Written to {}: {}", run.output, exported.about)
                        : about_text(exported) + fmt::format("Written to {}.\n", run.output);
  }
  return kExitOk;
}

}  // namespace

Command add_export(CLI::App& program) {
  CLI::App* app = program.add_subcommand("export", kDescription);
  app->footer(kExamples);
  const auto run = std::make_shared<ExportRun>();
  ExportOptions& options = run->options;
  app->add_option("PLAN", run->plan_file, "a plan file (nest plan -o), or -")->group("Arguments");
  app->option_defaults()->group("What is written");
  add_word(*app, "--to", export_targets(), run->target, export_help());
  app->add_option("--format", options.format, formats_text())->type_name("NAME");
  app->add_option("-o,--output", run->output, "write it here; what there is to know goes to the terminal")
      ->type_name("FILE");
  app->add_option("--ranks", options.ranks, "chakra: whose traces, 0,8,16-23 or all")->type_name("LIST");
  add_word(
      *app, "--target", plan_targets(), options.target,
      "rankfile: whose plan, where the framework cannot run the one asked for; any: that one as it is; default: the "
      "stack's framework");
  app->add_flag("--no-model", run->no_model, "only what the plan decides, without the sizes of the model");
  add_integer(*app, "--per-host", options.per_host, kPerHost,
              "devices of one host, where that is less than the cluster's first level");
  add_integer(*app, "--cores-per-device", options.cores_per_device, kCores,
              "openmpi: bind every rank to so many cores");
  app->option_defaults()->group("How it is estimated");
  add_profile_option(*app, run->profile);
  app->option_defaults()->group("Search for the nearest plan");
  add_integer(*app, "--threads", options.threads, kThreads, "default: one per core");
  add_seconds(*app, "--time-limit", options.time_limit_s, "seconds of each search");
  return {app, [run](Session& session) { return run_export(*run, session); },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest::app
