#include "nest/export.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "base/layout.h"
#include "base/units.h"
#include "cost/evaluate.h"
#include "door/option_checks.h"
#include "door/priced_plan.h"
#include "exporter/exporters.h"
#include "exporter/framework.h"
#include "exporter/framework_rules.h"
#include "load/job.h"
#include "nest/option.h"
#include "nest/search.h"
#include "plan/plan_json.h"
#include "plan/strategy_text.h"
#include "report/json.h"

namespace nest {

struct ExportedPlan {
  std::string json;
};

namespace {

const exporter::Exporter& exporter_of(const std::string& name) {
  return exporter::exporters()[require_word("to", name, exporter::exporter_names())];
}

// No launch line says what is trained, so that one would train everything.
void refuse_frozen(const Run& run) {
  const bool adapters = !run.lora.empty();
  if (!adapters && run.freeze.empty()) return;
  throw InputError(
      fmt::format("{} {}: what is exported trains every weight; nothing is written for a run that does not",
                  option(adapters ? "lora" : "freeze"), adapters ? run.lora : run.freeze));
}

// The plan that is written, and what became of the one that was asked for.
struct Choice {
  cost::Job job;
  Plan plan;
  std::vector<std::string> cannot;
  std::vector<std::string> set;  // settings of the search that found it, which the one that is written keeps
  double asked_s = 0;
  bool asked_fits = true;
  bool proven = true;
  std::string asked_stack;       // the one that is written is priced with the framework's own stack instead of this
  bool without_profile = false;  // what was asked for was measured at a precision that the framework does not have

  double excess() const { return plan.prediction.iteration_s / asked_s - 1; }
};

Choice price_choice(const Plan& plan) {
  PricedPlan priced = price_plan(plan);
  Choice choice;
  choice.asked_s = priced.plan.prediction.iteration_s;
  choice.asked_fits = priced.plan.fits;
  choice.plan = std::move(priced.plan);
  choice.job = std::move(priced.job);
  return choice;
}

// The job as the framework's own stack prices it; nothing where it is priced so already, or that stack is no guide.
std::optional<cost::Job> own_job(const exporter::FrameworkRules& rules, const Choice& choice) {
  if (exporter::is_own_stack(rules.framework, choice.job.stack) || !rules.knows_memory) return std::nullopt;
  Plan other = choice.plan;
  other.run.stack = rules.usual_stack;
  other.run.stack_reason.clear();
  other.stack = other.profile = {};
  return load::load_job(other);
}

// What does not fit is an obstacle too; adds it. The plan is without others.
void check_memory(const exporter::FrameworkRules& rules, const cost::Job& job, Choice& choice) {
  const Plan priced = cost::refuse_strategy(job, choice.plan.strategy, choice.plan.stages).empty()
                          ? cost::evaluate(job, choice.plan.strategy, choice.plan.stages)
                          : choice.plan;
  if (priced.fits || !rules.knows_memory) return;
  choice.cannot.push_back(fmt::format("cannot hold this plan in memory: {} (stack {})", priced.misfit, job.stack.name));
}

// Replaces the plan by the nearest one that the framework runs. False when there is none.
bool find_nearest(const ExportOptions& options, launch::Framework framework, Choice& choice) {
  exporter::Asked asked{options.per_host, {}, 0};
  if (choice.plan.search) {
    asked.set = choice.plan.search->set;
    asked.most_devices = choice.plan.search->max_devices;
  }
  choice.cannot =
      exporter::obstacles(framework, choice.job, choice.plan.strategy, choice.plan.stages, options.per_host);
  const std::string precision = exporter::precision_obstacle(framework, choice.job.run.precision);
  if (!precision.empty()) {
    choice.cannot.insert(choice.cannot.begin(), precision);
    choice.plan.run.precision = exporter::usable_precision(framework, choice.job.run.precision);
    choice.without_profile = !choice.plan.profile.empty();
    choice.plan.profile = {};
    choice.job = load::load_job(choice.plan);
  }
  choice.set = asked.set;
  const exporter::FrameworkRules& rules = exporter::rules_of(framework);
  std::optional<cost::Job> own = own_job(rules, choice);
  if (choice.cannot.empty()) check_memory(rules, own ? *own : choice.job, choice);
  if (choice.cannot.empty()) return true;
  if (own) {
    choice.asked_stack = choice.job.stack.name;
    choice.job = std::move(*own);
  }
  search::SearchSettings search;
  search.threads = static_cast<int>(options.threads);
  search.stop = options.stop;
  if (options.time_limit_s > 0) search.time_limit_s = options.time_limit_s;
  const std::optional<exporter::NearestPlan> nearest =
      exporter::nearest_plan(framework, choice.job, search, nullptr, asked);
  if (!nearest) return false;
  choice.proven = nearest->proven;
  choice.plan = nearest->plan;
  choice.plan.search.reset();
  return true;
}

// What the plan costs as the framework is usually run, where it was priced as something else.
std::string stack_note(launch::Framework framework, const Choice& choice) {
  const exporter::FrameworkRules& rules = exporter::rules_of(framework);
  if (exporter::is_own_stack(framework, choice.job.stack)) return {};
  Plan other = choice.plan;
  other.run.stack = rules.usual_stack;
  other.stack = other.profile = {};
  const Plan evaluation = cost::evaluate(load::load_job(other), other.strategy, other.stages);
  if (!evaluation.fits) {
    return fmt::format("estimates are those of stack {}; modelled as {}, the plan does not fit: {}; plan with stack {}",
                       choice.plan.run.stack, other.run.stack, evaluation.misfit, other.run.stack);
  }
  return fmt::format("estimates are those of stack {}; modelled as {}, a step takes {}", choice.plan.run.stack,
                     other.run.stack, format_duration(evaluation.prediction.iteration_s));
}

std::string verdict_text(launch::Framework framework, const Choice& choice) {
  const char* name = to_string(framework);
  const std::string step = format_duration(choice.plan.prediction.iteration_s);
  if (choice.cannot.empty()) return fmt::format("{} runs this plan as it is: {} per step.\n", name, step);
  // Prices of two stacks are not compared.
  const std::string cost = choice.asked_stack.empty() ? fmt::format(": {:+.1f} %", 100 * choice.excess()) : "";
  std::string text;
  if (choice.cannot.size() == 1) {
    text = wrap_after("", fmt::format("{} {}{}", name, choice.cannot.front(), cost)) + "\n";
  } else {
    text = fmt::format("{} cannot run this plan as it is{}\n", name, cost);
    for (const std::string& reason : choice.cannot) text += wrap_after("  - ", reason) + "\n";
  }
  const std::string asked = format_duration(choice.asked_s);
  text += wrap_after("", fmt::format("The fastest plan that it can run{}: {}, {} per step{}.",
                                     choice.proven ? " (proven)" : ", as far as was searched",
                                     plan::strategy_text(choice.plan.strategy), step,
                                     choice.asked_stack.empty()
                                         ? " instead of " + asked
                                         : fmt::format(" as stack {} assumes it (the one asked for: {} as stack {})",
                                                       choice.job.stack.name, asked, choice.asked_stack))) +
          "\n";
  return text;
}

report::Json report_json(const std::string& target, const Choice& choice, const exporter::ExportedText& written,
                         const std::vector<exporter::Host>& hosts, const std::optional<exporter::LaunchOrder>& launch) {
  report::Json json = {{"schema", "nest.export/1"},           {"framework", target},
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
  json["environment"] = report::Json::object();
  for (const auto& [name, value] : written.environment) json["environment"][name] = value;
  json["notes"] = written.notes;
  json.update(written.json);
  json["plan"] = plan::plan_to_json(choice.plan);
  return json;
}

Export started(Choice& choice) {
  Export made;
  made.cannot = choice.cannot;
  made.set = choice.set;
  made.fits = choice.asked_fits;
  made.plan = choice.plan;
  return made;
}

Export none_found(Choice& choice, launch::Framework framework) {
  Export none = started(choice);
  none.found = false;
  none.framework = to_string(framework);
  return none;
}

// Whose plan the ranks are of; nothing: the one asked for.
std::optional<launch::Framework> rank_framework(const ExportOptions& options, const cost::SoftwareStack& stack) {
  if (options.target.empty()) return exporter::framework_of(stack);
  const std::size_t chosen = require_word("target", options.target, plan_targets());
  if (chosen == 0) return std::nullopt;
  return exporter::framework_rules()[chosen - 1].framework;
}

// A rank file, of the very plan that the framework is told.
Export export_ranks(const Plan& plan, const exporter::Exporter& exporter, const ExportOptions& options,
                    std::size_t format) {
  constexpr std::int64_t kMostRanks = 1 << 20;  // a line each
  if (plan.strategy.devices_used() > kMostRanks) {
    throw InputError(fmt::format("rankfile: {} ranks are more than the {} that are listed",
                                 format_integer(plan.strategy.devices_used()), format_integer(kMostRanks)));
  }
  Choice choice = price_choice(plan);
  const std::optional<launch::Framework> framework = rank_framework(options, choice.job.stack);
  if (framework && !find_nearest(options, *framework, choice)) return none_found(choice, *framework);
  exporter::ExportTask task{choice.job, choice.plan.strategy, choice.plan.stages};
  task.hosts = exporter::hosts_of(choice.job.cluster, options.per_host);
  const std::optional<exporter::LaunchOrder> launch = exporter::launch_order(task.hosts, choice.plan.strategy);
  if (launch) task.order = launch->order;
  task.cores_per_device = options.cores_per_device;
  Export made = started(choice);
  made.text = exporter.write(task, format).text;
  made.about =
      fmt::format("{} ranks on {} hosts, rank order {}.\n", format_integer(choice.plan.strategy.devices_used()),
                  format_integer(static_cast<std::int64_t>(task.hosts.size())), to_string(task.order));
  if (framework) made.framework = to_string(*framework);
  if (!choice.cannot.empty()) {
    made.about +=
        wrap_after("", fmt::format("They are those of {}, the fastest plan that {} can run: the one asked for "
                                   "is not.",
                                   plan::strategy_text(choice.plan.strategy), made.framework)) +
        "\n";
  }
  made.exported =
      std::make_shared<ExportedPlan>(ExportedPlan{exporter.write(task, exporter::format_index(exporter, "json")).text});
  return made;
}

// The hosts of the plan and the order in which they start; `launch` outlives the task.
void place(const Choice& choice, const ExportOptions& options, std::optional<exporter::LaunchOrder>& launch,
           exporter::ExportTask& task, Export& made) {
  if (choice.job.cluster.torus) return;
  task.hosts = exporter::hosts_of(choice.job.cluster, options.per_host);
  launch = exporter::launch_order(task.hosts, choice.plan.strategy);
  made.placing = !launch                         ? Export::Placing::rank_by_rank
                 : launch->hosts.natural_hosts() ? Export::Placing::natural
                                                 : Export::Placing::hosts_in_order;
  if (!launch) return;
  task.order = launch->order;
  task.launch = &*launch;
}

// Of folders for several frameworks: the one asked for, or that of the stack.
std::size_t folder_format(const exporter::Exporter& exporter, const ExportOptions& options, std::size_t format,
                          const cost::SoftwareStack& stack) {
  if (!options.format.empty() || !exporter.formats[format].framework) return format;
  const std::optional<launch::Framework> own = exporter::framework_of(stack);
  for (std::size_t i = 0; own && i < exporter.formats.size(); ++i) {
    if (exporter.formats[i].framework == own) return i;
  }
  return format;
}

Export export_files(const Plan& plan, const exporter::Exporter& exporter, const ExportOptions& options,
                    std::size_t format) {
  Choice choice = price_choice(plan);
  format = folder_format(exporter, options, format, choice.job.stack);
  const std::optional<launch::Framework> framework = exporter.formats[format].framework;
  if (framework && !find_nearest(options, *framework, choice)) return none_found(choice, *framework);
  Export made = started(choice);
  exporter::ExportTask task{choice.job, choice.plan.strategy, choice.plan.stages};
  std::optional<exporter::LaunchOrder> launch;
  if (framework) {
    refuse_frozen(choice.job.run);
    made.framework = to_string(*framework);
    place(choice, options, launch, task, made);
    task.with_model = options.model;
  }
  task.ranks = options.ranks;
  const exporter::ExportedFiles files =
      exporter.write_files(task, format, [&](const std::string& name, const std::string& content) {
        if (options.write) {
          options.write(name, content);
        } else {
          made.files.push_back({name, content});
        }
      });
  made.about = (framework ? verdict_text(*framework, choice) : "") + files.summary;
  made.notes = files.notes;
  report::Json json = {{"schema", "nest.export/1"}, {"framework", exporter.name}, {"folder", options.folder}};
  if (framework) {
    json["format"] = exporter.formats[format].name;
    json["as_asked"] = choice.cannot.empty();
    json["cannot"] = choice.cannot;
    json["iteration_s"] = choice.plan.prediction.iteration_s;
    json["notes"] = files.notes;
  }
  json.update(files.json);
  made.exported = std::make_shared<ExportedPlan>(ExportedPlan{report::to_text(json)});
  return made;
}

Export export_framework(const Plan& plan, const exporter::Exporter& exporter, const ExportOptions& options,
                        std::size_t format) {
  const launch::Framework framework = *exporter.framework;
  Choice choice = price_choice(plan);
  const bool found = find_nearest(options, framework, choice);
  Export made = started(choice);
  made.found = found;
  made.framework = to_string(framework);
  if (!found) return made;
  const cost::Job& job = choice.job;
  exporter::ExportTask task{job, choice.plan.strategy, choice.plan.stages};
  std::optional<exporter::LaunchOrder> launch;
  place(choice, options, launch, task, made);
  task.with_model = options.model;
  refuse_frozen(job.run);
  exporter::ExportedText written = exporter.write(task, format);
  if (choice.without_profile) {
    written.notes.emplace_back(
        "the profile holds for another precision: the plan that is written is modelled without it");
  }
  made.text = written.text;
  made.about = verdict_text(framework, choice);
  made.environment = written.environment;
  made.notes = written.notes;
  if (std::string note = stack_note(framework, choice); !note.empty()) made.notes.push_back(std::move(note));
  made.exported = std::make_shared<ExportedPlan>(
      ExportedPlan{report::to_text(report_json(exporter.name, choice, written, task.hosts, launch))});
  return made;
}

}  // namespace

std::vector<std::string> export_targets() { return exporter::exporter_names(); }

std::vector<std::string> export_formats(const std::string& target) {
  std::vector<std::string> names;
  for (const exporter::ExportFormat& format : exporter_of(target).formats) names.emplace_back(format.name);
  return names;
}

bool exports_folder(const std::string& target) { return exporter_of(target).write_files != nullptr; }

// "the framework, or rankfile: which rank …, or chakra: …"
std::string export_help() {
  std::string text = "the framework";
  for (const exporter::Exporter& row : exporter::exporters()) {
    if (!row.framework) text += fmt::format(", or {}: {}", row.name, row.words);
  }
  return text;
}

Export export_plan(const Plan& plan, const std::string& target, const ExportOptions& options) {
  require_given("per_host", options.per_host, kPerHost);
  require_given("cores_per_device", options.cores_per_device, kCores);
  require_given("threads", options.threads, kThreads);
  require_seconds("time_limit", options.time_limit_s);
  const exporter::Exporter& exporter = exporter_of(target);
  const std::size_t format = exporter::format_index(exporter, options.format);  // refused before anything is searched
  if (exporter.write_files != nullptr) return export_files(plan, exporter, options, format);
  if (!exporter.framework) return export_ranks(plan, exporter, options, format);
  return export_framework(plan, exporter, options, format);
}

std::string to_json(const Export& made) {
  NEST_CHECK(made.exported != nullptr, "a plan was written");
  return made.exported->json;
}

std::string formats_text() { return exporter::formats_text(); }

}  // namespace nest
