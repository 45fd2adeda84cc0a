#include "nest/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "cost/evaluate.h"
#include "door/executed.h"
#include "door/option_checks.h"
#include "exporter/changes.h"
#include "launch/nemo_launch.h"
#include "launch/setup.h"
#include "load/input.h"
#include "load/job.h"
#include "model/config.h"
#include "nest/option.h"
#include "report/why_not_mine.h"

namespace nest {

struct LaunchComparison {
  report::WhyNotMine report;
};

namespace {

constexpr std::size_t kJudgedChanges = 8;    // that are executed: the formula's first
constexpr double kWorthASecondOption = 1.5;  // a pair is recommended when it gains so much more than the best single

launch::ShellVariables variables_of(const std::vector<std::string>& defines) {
  launch::ShellVariables variables;
  for (const std::string& define : defines) {
    const std::size_t equals = define.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError(fmt::format("{}: `{}` is no NAME=value", option("define"), clip(define, 40)));
    }
    variables[define.substr(0, equals)] = {launch::ShellWord{define.substr(equals + 1), {}, 0}};
  }
  return variables;
}

// A file where there is one of that name; else the text itself.
bool is_file(const Input& from) {
  constexpr std::size_t kLongestPath = 1024;
  const std::string& name = from.name;
  if (from.text) return false;
  return name == "-" || (name.size() < kLongestPath && name.find('\n') == std::string::npos &&
                         load::path_exists(name) && !load::is_folder(name));
}

// Whether a text that may be a stranger's may have this file read: a plain file below its own folder or below that in which
// nest was started, wherever links lead.
bool may_be_read(const std::filesystem::path& folder, const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  if (failed || !fs::is_regular_file(real, failed)) return false;
  for (const fs::path& root : {folder, fs::path(".")}) {
    const fs::path below = real.lexically_relative(fs::canonical(root.empty() ? "." : root, failed));
    if (!failed && !below.empty() && *below.begin() != "..") return true;
  }
  return false;
}

launch::LaunchSetup read_setup(const LaunchQuestion& question) {
  const bool file = is_file(question.from);
  const std::string& name = question.from.name;
  // A single word is a path that is not there, not a command.
  if (!file && !question.from.text && name.find_first_of(" \n\t{") == std::string::npos) {
    throw InputError(fmt::format("{}: {}: no such file, and no launch line", option("from"), clip(name, 60)));
  }
  const std::filesystem::path folder = file ? std::filesystem::path(name).parent_path() : std::filesystem::path();
  const auto read_named = [&](const std::string& path) -> std::optional<std::string> {
    const std::filesystem::path beside = folder / path;
    if (!may_be_read(folder, beside)) return std::nullopt;
    return load::read_text(beside.string());
  };
  const bool is_text = file || question.from.text;
  return launch::read_launch(is_text ? load::source_name(question.from) : "launch line",
                             is_text ? load::read_text(question.from) : name, variables_of(question.define),
                             question.with, read_named);
}

std::int64_t world_of(const LaunchQuestion& question, const launch::LaunchSetup& setup) {
  const std::int64_t asked = load::asked_devices(question.job);
  if (setup.world && asked > 0 && *setup.world != asked) {
    throw InputError(fmt::format("{}: {} were asked for, and {} starts {} ranks", option("devices"), asked,
                                 setup.source, *setup.world));
  }
  if (setup.world) return *setup.world;
  if (asked > 0) return asked;
  throw InputError(
      fmt::format("{}: how many ranks it starts cannot be read from it{}; give {}{}", setup.source,
                  setup.world_unknown.empty() ? "" : fmt::format(" ({} is not known)", setup.world_unknown),
                  option("devices"), setup.world_unknown.starts_with('$') ? " or " + option("define") : ""));
}

// What `LaunchSetup` leaves to its framework's defaults.
std::int64_t batch_of(const LaunchQuestion& question, const launch::LaunchSetup& setup, std::int64_t world) {
  const std::int64_t pipeline = checked_product({setup.tp, setup.cp, setup.pp});
  const std::int64_t data = std::max<std::int64_t>(1, world / pipeline);
  const auto full = [&](std::int64_t steps) { return checked_product({setup.micro_batch.value_or(1), steps, data}); };
  if (setup.global_batch) {
    if (question.job.global_batch > 0 && question.job.global_batch != *setup.global_batch) {
      throw InputError(fmt::format("{}: {} was asked for, and {} says {}", option("global_batch"),
                                   question.job.global_batch, setup.source, *setup.global_batch));
    }
    if (setup.micro_batch && setup.accumulation && full(*setup.accumulation) != *setup.global_batch) {
      throw InputError(fmt::format("{}: a batch of {} is not micro-batch x accumulation x ranks = {} x {} x {}",
                                   setup.source, *setup.global_batch, *setup.micro_batch, *setup.accumulation, data));
    }
    return *setup.global_batch;
  }
  if (question.job.global_batch > 0) return question.job.global_batch;
  if (setup.local_batch) return checked_product({*setup.local_batch, data});
  if (!setup.micro_batch)
    throw InputError(fmt::format("{}: neither the global nor the micro-batch size is given", setup.source));
  return full(setup.accumulation.value_or(1));
}

struct FromJob {
  launch::LaunchSetup setup;
  cost::Job job;
};

FromJob load_from(const LaunchQuestion& question) {
  FromJob from{read_setup(question), {}};
  launch::LaunchSetup& setup = from.setup;
  Question job = question.job;
  if (job.batch_tokens > 0) {
    throw InputError(fmt::format("{}: is in sequences where a launch line is read", option("global_batch")));
  }
  job.devices = world_of(question, setup);
  job.nodes = 0;
  job.global_batch = batch_of(question, setup, job.devices);
  if (setup.sequence && question.job.seq > 0 && question.job.seq != *setup.sequence) {
    throw InputError(fmt::format("{}: {} was asked for, and {} says {}", option("seq"), question.job.seq, setup.source,
                                 *setup.sequence));
  }
  if (setup.sequence) job.seq = *setup.sequence;
  if (setup.mtp_layers > 0) job.mtp_layers = setup.mtp_layers;
  if (!job.precision) job.precision = setup.precision;
  if (!job.optimizer) job.optimizer = setup.optimizer;
  if (job.optimizer_offload == 0) job.optimizer_offload = setup.optimizer_offload;
  job.stack = setup.stack.name;
  const bool from_text = question.job.model.empty() && setup.model_name.empty();
  if (question.job.model.empty() && !setup.model_name.empty()) job.model = setup.model_name;
  model::Architecture architecture;
  if (from_text) {
    if (setup.model_config.is_null()) {
      throw InputError(fmt::format("{}: the sizes of the model are not in it; name the model with {}", setup.source,
                                   option("model")));
    }
    if (!setup.model_config.contains("vocab_size")) {
      throw InputError(
          fmt::format("{}: --vocab-size is missing, and the tokenizer is not at hand; add it with {} "
                      "'--vocab-size N', or name the model with {}",
                      setup.source, option("with"), option("model")));
    }
    architecture = model::read_config(doc::parse_json(setup.source, setup.model_config.dump(1)), "launch line");
    if (!setup.sequence && question.job.seq == 0) job.seq = architecture.default_sequence;
  }
  const std::string routing = job.routing;
  if (from_text) job.routing.clear();  // of the line's model, not of the one that stands in for it here
  const cost::Job loaded = load::load_job(job);
  if (!from_text) {
    if (loaded.model.traced) {
      throw InputError(option("model") +
                       ": a launch line configures a known family; a graph is planned as it is, or modelled with a "
                       "strategy");
    }
    architecture = loaded.model.architecture;
  }
  // Again with the stack as the line switches it.
  Run run = loaded.run;
  run.routing = routing;
  from.job = cost::make_job(architecture, run, setup.stack, loaded.cluster);
  from.job.title = from_text ? "The model of the launch line" : loaded.title;
  from.job.profile = loaded.profile;
  return from;
}

constexpr std::array<const char*, exporter::kTimeTerms> kTermNames = {
    "compute",         "slowest stage",  "recomputation",   "pipeline bubble", "tensor parallel", "context parallel",
    "expert parallel", "stage to stage", "sharded weights", "gradient sync",   "optimizer",       "other"};

// What of a setup makes a term what it is.
std::string about_term(exporter::TimeTerm term, const exporter::SetupVariant& mine, const Plan& evaluation,
                       const cost::Job& job) {
  const Strategy& s = mine.strategy;
  switch (term) {
    case exporter::TimeTerm::compute: return fmt::format("micro-batches of {}", s.micro_batch);
    case exporter::TimeTerm::imbalance: {
      const auto slowest =
          std::max_element(evaluation.stages.begin(), evaluation.stages.end(),
                           [](const StagePlan& a, const StagePlan& b) { return a.time.total < b.time.total; });
      double sum = 0;
      for (const StagePlan& stage : evaluation.stages) sum += stage.time.total;
      const double mean = sum / static_cast<double>(evaluation.stages.size());
      return fmt::format("stage {} is {:.0f} % over the mean", slowest - evaluation.stages.begin(),
                         100 * (slowest->time.total / mean - 1));
    }
    case exporter::TimeTerm::recompute:
      return fmt::format("recomputation {}", to_string(mine.stages.front().recompute));
    case exporter::TimeTerm::bubble:
      return fmt::format(
          "{} micro-batches, {} stages{}", micro_batches(s, job.run.global_batch), s.pp,
          s.virtual_stages > 1 ? fmt::format(", {} virtual stages each", s.virtual_stages) : ", not interleaved");
    case exporter::TimeTerm::tensor:
      return fmt::format("tp={}{}{}", s.split.tp, s.split.sp ? "" : ", no sp",
                         mine.stack.tensor_overlap ? "" : ", not overlapped");
    case exporter::TimeTerm::context: return fmt::format("cp={}", s.split.cp);
    case exporter::TimeTerm::expert:
      return fmt::format("ep={}{}", s.split.ep, mine.stack.expert_overlap ? "" : ", not overlapped");
    case exporter::TimeTerm::messages: return mine.stack.pipeline_overlap ? "" : "not overlapped";
    case exporter::TimeTerm::weights: return fmt::format("ZeRO {}", mine.stages.front().zero);
    case exporter::TimeTerm::gradients:
      return mine.stack.data_overlap == cost::DataOverlap::none ? "not overlapped" : "";
    case exporter::TimeTerm::optimizer: return mine.stages.front().zero == 0 ? "not sharded" : "";
    case exporter::TimeTerm::other: return cost::defers_head(mine.stack, s) ? "the head's gradients wait" : "";
  }
  return {};
}

void fill_memory(const cost::Job& job, const Plan& evaluation, report::WhyNotMine& report) {
  const std::size_t fullest = evaluation.fullest_stage();
  report.fits = evaluation.fits;
  report.misfit = evaluation.misfit;
  report.fullest_stage = static_cast<std::int64_t>(fullest);
  report.spare_bytes = job.cluster.device.memory_bytes - evaluation.stages[fullest].memory.needed;
}

void fill_terms(const exporter::SetupVariant& mine, const Plan& evaluation, const exporter::NearestPlan& best,
                const exporter::ChangeList& changes, const cost::Job& job, report::WhyNotMine& report) {
  const std::vector<double> yours = exporter::time_terms(mine.strategy, job.run.global_batch, evaluation);
  const std::vector<double> theirs = exporter::time_terms(best.plan.strategy, job.run.global_batch, best.plan);
  for (std::size_t t = 0; t < exporter::kTimeTerms; ++t) {
    const auto term = static_cast<exporter::TimeTerm>(t);
    report::TermLine line{kTermNames[t], yours[t], theirs[t], about_term(term, mine, evaluation, job), "", 0};
    for (const exporter::PricedChange& change : changes.single) {
      const double gain = evaluation.expected().iteration_s - change.evaluation.expected().iteration_s;
      if (change.term != term || gain <= line.gain_s) continue;
      line.change = change.options;
      line.gain_s = gain;
    }
    report.terms.push_back(std::move(line));
  }
  std::stable_sort(report.terms.begin(), report.terms.end(), [](const report::TermLine& a, const report::TermLine& b) {
    return a.yours_s - a.best_s > b.yours_s - b.best_s;
  });
}

void fill_changes(const Plan& evaluation, const exporter::ChangeList& changes, report::WhyNotMine& report) {
  const auto line = [](const exporter::PricedChange& change) {
    return report::ChangeLine{change.options, change.evaluation.expected().iteration_s};
  };
  for (const exporter::PricedChange& change : changes.single) report.changes.push_back(line(change));
  const double now = evaluation.expected().iteration_s;
  const auto gain = [&](const exporter::PricedChange& change) {
    return now - change.evaluation.expected().iteration_s;
  };
  if (!evaluation.fits) {
    if (!changes.single.empty()) {
      report.recommended.push_back(line(changes.single.front()));
    } else if (changes.pair) {
      report.recommended.push_back(line(*changes.pair));
    }
    return;
  }
  const double single = changes.single.empty() ? 0 : std::max(0.0, gain(changes.single.front()));
  const double pair = changes.pair ? gain(*changes.pair) : 0;
  if (pair > kWorthASecondOption * single && pair > 1e-3 * now) {
    report.recommended.push_back(line(*changes.pair));
  } else if (single > 1e-3 * now) {
    report.recommended.push_back(line(changes.single.front()));
  }
}

// In the words of NeMo and Megatron-Bridge.
void write_as_overrides(const launch::LaunchSetup& setup, exporter::ChangeList& changes) {
  const auto rewrite = [&](exporter::PricedChange& change) {
    change.options = launch::override_words(change.options, setup.overlap_object);
  };
  std::for_each(changes.single.begin(), changes.single.end(), rewrite);
  if (changes.pair) rewrite(*changes.pair);
}

double seconds_of(const Plan& plan) { return plan.expected().iteration_s; }

// All sides of the comparison by one judge. Changes that the formula does not have among its first are left out.
void judge_changes(const cost::Job& job, const std::atomic<bool>* stop, exporter::ChangeList& changes) {
  const auto judge = [&](exporter::PricedChange& change) {
    cost::Job changed = job;
    changed.stack = change.variant.stack;
    expect_execution(changed, 0, stop, change.evaluation);
  };
  if (changes.single.size() > kJudgedChanges) changes.single.resize(kJudgedChanges);
  for (exporter::PricedChange& change : changes.single) judge(change);
  std::stable_sort(changes.single.begin(), changes.single.end(),
                   [](const exporter::PricedChange& a, const exporter::PricedChange& b) {
                     return seconds_of(a.evaluation) < seconds_of(b.evaluation);
                   });
  if (changes.pair) judge(*changes.pair);
}

// The formula's best, unless something else that was judged takes less.
void keep_fastest(const Plan& mine, const exporter::ChangeList& changes, exporter::NearestPlan& best) {
  const auto offer = [&](const Plan& plan) {
    if (!plan.fits || seconds_of(plan) >= seconds_of(best.plan)) return;
    best.plan = plan;
    best.proven = false;
  };
  offer(mine);
  if (!changes.single.empty()) offer(changes.single.front().evaluation);
  if (changes.pair) offer(changes.pair->evaluation);
}

}  // namespace

LaunchAnswer evaluate_launch(const LaunchQuestion& question) {
  require_given("threads", question.threads, kThreads);
  require_seconds("time_limit", question.time_limit_s);
  FromJob from = load_from(question);
  const cost::Job& job = from.job;
  const launch::Framework framework = from.setup.framework;
  const launch::LaunchedPlan launched = launch::lay_out(from.setup, job);
  const exporter::SetupVariant mine{job.stack, launched.strategy, launched.stages};
  Plan evaluation = cost::evaluate(job, mine.strategy, mine.stages);

  search::SearchSettings search;
  search.threads = static_cast<int>(question.threads);
  search.stop = question.stop;
  if (question.time_limit_s > 0) search.time_limit_s = question.time_limit_s;
  search::PriceCache prices(job);
  exporter::ChangeList changes = exporter::price_changes(framework, job, mine, search, &prices);
  if (framework == launch::Framework::nemo) write_as_overrides(from.setup, changes);
  cost::Job best_job = job;
  best_job.stack = exporter::best_stack(framework, job.stack);
  std::optional<exporter::NearestPlan> best = exporter::nearest_plan(framework, best_job, search);
  if (question.judge == PlanJudge::simulation) {
    expect_execution(job, 0, question.stop, evaluation);
    judge_changes(job, question.stop, changes);
    if (best) {
      expect_execution(best_job, 0, question.stop, best->plan);
      if (best->plan.executed) best->proven = false;  // by the formula, which is not the judge here
      keep_fastest(evaluation, changes, *best);
    }
  }

  report::WhyNotMine report;
  report.framework = to_string(framework);
  report.title = from.job.title;
  report.devices = fmt::format("{} x {} ({})", format_integer(mine.strategy.devices_used()), job.cluster.device.name,
                               job.cluster.name);
  report.yours = evaluation;
  report.notes = from.setup.notes;
  report.notes.insert(report.notes.end(), launched.notes.begin(), launched.notes.end());
  fill_memory(job, evaluation, report);
  if (best) {
    report.has_best = true;
    report.proven = best->proven;
    report.best = best->plan;
    report.best.search.reset();
    fill_terms(mine, evaluation, *best, changes, job, report);
  }
  fill_changes(evaluation, changes, report);
  const std::optional<Plan> fastest = best ? std::optional(report.best) : std::nullopt;
  return {evaluation, fastest, std::make_shared<LaunchComparison>(LaunchComparison{std::move(report)})};
}

std::string to_text(const LaunchAnswer& answer, const Style& style) {
  return report::why_not_mine_text(answer.comparison->report, style);
}

std::string to_json(const LaunchAnswer& answer) {
  return report::to_text(report::why_not_mine_json(answer.comparison->report));
}

}  // namespace nest
