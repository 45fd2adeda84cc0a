#include "nest/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "cost/error_bar.h"
#include "cost/evaluate.h"
#include "door/executed.h"
#include "door/job_data.h"
#include "door/plan_reports.h"
#include "door/priced_plan.h"
#include "html/candidates_section.h"
#include "load/fleet.h"
#include "load/input.h"
#include "nest/evaluate.h"
#include "nest/option.h"
#include "plan/strategy_text.h"
#include "report/candidates_report.h"

namespace nest {
namespace {

constexpr double kSecondsOfHour = 3600;
constexpr double kGtoken = 1e9;

// One of them, before it is planned or priced.
struct Posed {
  std::string name;
  Question question;
  std::string strategy;  // "best", or one of a person
  Input plan;            // instead of both
};

// The list, or what the question says.
template <class T>
std::vector<T> list_or(const std::vector<T>& list, const T& single) {
  return list.empty() ? std::vector<T>{single} : list;
}

// Of a pool that a file names, the pool's.
std::string short_name(const Input& input) {
  const auto pool = load::named_pool(input);
  return pool ? pool->second : load::file_stem(input.name);
}

std::vector<Posed> posed_candidates(const CandidateLists& lists) {
  std::vector<Posed> posed;
  if (!lists.only_plans) {
    const std::vector<std::string> strategies = list_or(lists.strategies, std::string(kBestStrategy));
    for (const std::string& strategy : strategies) {
      if (strategy != kBestStrategy) plan::parse_strategy(strategy, option("strategy"));
    }
    for (const Input& cluster : list_or(lists.clusters, lists.question.cluster)) {
      for (const std::int64_t devices : list_or(lists.devices, lists.question.devices)) {
        for (const Input& stack : list_or(lists.stacks, lists.question.stack)) {
          for (const std::string& strategy : strategies) {
            Posed each{"", lists.question, strategy, {}};
            each.question.cluster = cluster;
            each.question.devices = devices;
            each.question.stack = stack;
            std::vector<std::string> words;
            if (lists.clusters.size() > 1) words.push_back(short_name(cluster));
            if (lists.devices.size() > 1) words.push_back(format_integer(devices));
            if (lists.stacks.size() > 1) words.push_back(short_name(stack));
            if (strategies.size() > 1 || words.empty()) words.push_back(strategy);
            for (const std::string& word : words) each.name += (each.name.empty() ? "" : ", ") + word;
            posed.push_back(std::move(each));
          }
        }
      }
    }
  }
  for (const Input& plan : lists.plans) posed.push_back({short_name(plan), {}, "", plan});
  if (posed.size() > kMostCandidates) {
    throw InputError(fmt::format("{} candidates: at most {} are compared; a study holds more (nest sweep)",
                                 format_integer(static_cast<std::int64_t>(posed.size())), kMostCandidates));
  }
  if (posed.empty()) throw InputError("there is nothing to compare: neither plans nor a job");
  return posed;
}

// Names and files are wrong or right whatever the size: what one size or strategy cannot be is that candidate's result.
void check_inputs(const CandidateLists& lists) {
  if (lists.only_plans) return;
  for (const Input& cluster : list_or(lists.clusters, lists.question.cluster)) {
    for (const Input& stack : list_or(lists.stacks, lists.question.stack)) {
      Question question = lists.question;
      question.cluster = cluster;
      question.stack = stack;
      question.devices = question.global_batch = 0;
      read_job(question);
    }
  }
}

void search_for(ComparedCandidate& candidate, const SearchOptions& options) {
  Answer answer = find_plan(*candidate.job, options);
  candidate.planned = true;
  candidate.job = answer.job;
  if (!answer.plans.empty()) {
    candidate.plan = std::move(answer.plans.front());
    if (answer.outcome == PlanOutcome::limit) candidate.note = "the best plan that was found in time";
    return;
  }
  const bool proven = answer.outcome == PlanOutcome::no_plan;
  candidate.outcome = proven ? CandidateOutcome::no_plan : CandidateOutcome::limit;
  candidate.note = proven ? "proven: no plan fits in memory" : "the time was over before any plan was found";
}

void find_candidate(const Posed& posed, const SearchOptions& options, ComparedCandidate& candidate) {
  if (!posed.plan.empty()) {
    PricedPlan priced = price_plan(read_plan(posed.plan));
    candidate.plan = std::move(priced.plan);
    candidate.job = wrap_job(std::move(priced.job));
  } else {
    candidate.job = read_job(for_target(posed.question, options.target));
    if (posed.strategy == kBestStrategy) {
      search_for(candidate, options);
    } else {
      candidate.plan = evaluate_plan(*candidate.job, posed.strategy, PlanJudge::formula);
    }
  }
  if (!candidate.plan) return;
  candidate.outcome = candidate.plan->fits ? CandidateOutcome::plan : CandidateOutcome::does_not_fit;
  if (!candidate.plan->fits) candidate.note = "does not fit: " + candidate.plan->misfit;
}

// What a step is for: tokens of different work are not compared.
std::string training_of(const cost::Job& job) {
  const Run& run = job.run;
  std::string text = fmt::format("{} ({} parameters), sequences of {}", job.title, format_integer(job.parameters),
                                 format_integer(run.sequence));
  if (run.encoder_sequence > 0) text += fmt::format(" and {}", format_integer(run.encoder_sequence));
  if (run.mtp_layers > 0) text += fmt::format(", {} further depths", run.mtp_layers);
  if (!run.freeze.empty()) text += ", frozen " + run.freeze;
  if (!run.lora.empty()) text += ", adapters " + run.lora;
  return text;
}

void require_same_training(const std::vector<ComparedCandidate>& candidates) {
  const ComparedCandidate* first = nullptr;
  for (const ComparedCandidate& candidate : candidates) {
    if (!candidate.job) continue;
    if (first == nullptr) first = &candidate;
    const std::string mine = training_of(unwrap(*candidate.job)), other = training_of(unwrap(*first->job));
    if (mine == other) continue;
    throw InputError(fmt::format("{} trains {}, {} trains {}: candidates must train the same", clip(first->name, 60),
                                 other, clip(candidate.name, 60), mine));
  }
}

// Fills ComparedCandidate::expected of those that fit, by one judge.
void judge_candidates(const CandidateOptions& options, CandidateComparison& comparison) {
  comparison.judge = options.search.judge;
  std::vector<std::optional<Prediction>> executed(comparison.candidates.size());
  for (std::size_t k = 0; k < executed.size() && comparison.judge == PlanJudge::simulation; ++k) {
    const ComparedCandidate& candidate = comparison.candidates[k];
    if (candidate.outcome != CandidateOutcome::plan) continue;
    // What was planned is told as `nest plan` tells it.
    executed[k] = candidate.planned && candidate.plan->executed
                      ? candidate.plan->executed
                      : executed_prediction(unwrap(*candidate.job), options.search.stop, *candidate.plan);
    if (executed[k]) continue;
    comparison.judge = PlanJudge::formula;
    comparison.judge_note = fmt::format("{} is too large to be executed, or was stopped", candidate.label);
  }
  for (std::size_t k = 0; k < executed.size(); ++k) {
    ComparedCandidate& candidate = comparison.candidates[k];
    if (candidate.outcome != CandidateOutcome::plan) continue;
    candidate.expected = comparison.judge == PlanJudge::simulation ? executed[k] : candidate.plan->prediction;
    // As evaluate_plan() tells it.
    const double formula_s = candidate.plan->prediction.iteration_s;
    const bool differs = std::abs(candidate.expected->iteration_s / formula_s - 1) > kWorth;
    if (!candidate.planned && differs) candidate.plan->executed = candidate.expected;
  }
}

void rank_candidates(CandidateComparison& comparison) {
  const auto per_sample = [](const ComparedCandidate& c) {
    return c.expected->iteration_s / real(c.plan->run.global_batch);
  };
  for (std::size_t k = 0; k < comparison.candidates.size(); ++k) {
    ComparedCandidate& candidate = comparison.candidates[k];
    if (!candidate.expected) continue;
    const double sequence = real(unwrap(*candidate.job).run.sequence);
    candidate.tokens_per_s = sequence / per_sample(candidate);
    candidate.device_hours_per_gtoken =
        real(candidate.plan->strategy.devices_used()) * kGtoken / candidate.tokens_per_s / kSecondsOfHour;
    if (!comparison.fastest || per_sample(candidate) < per_sample(comparison.candidates[*comparison.fastest])) {
      comparison.fastest = k;
    }
  }
  if (!comparison.fastest) return;
  const ComparedCandidate& fastest = comparison.candidates[*comparison.fastest];
  const cost::Job& base = unwrap(*fastest.job);
  const cost::ErrorShares base_shares = cost::error_shares(base, fastest.plan->strategy, *fastest.expected);
  for (ComparedCandidate& candidate : comparison.candidates) {
    if (!candidate.expected) continue;
    const cost::Job& job = unwrap(*candidate.job);
    comparison.same_batch = comparison.same_batch && job.run.global_batch == base.run.global_batch;
    candidate.times = per_sample(candidate) / per_sample(fastest);
    if (&candidate == &fastest) continue;
    const cost::Common common{job.cluster.device.name == base.cluster.device.name &&
                                  candidate.plan->stack.text() == fastest.plan->stack.text(),
                              candidate.plan->cluster.description.text() == fastest.plan->cluster.description.text()};
    candidate.probability_slower = cost::probability_faster(
        base_shares, cost::error_shares(job, candidate.plan->strategy, *candidate.expected), candidate.times, common);
  }
}

}  // namespace

CandidateComparison compare_candidates(const CandidateLists& lists, const CandidateOptions& options) {
  const std::vector<Posed> posed = posed_candidates(lists);
  check_inputs(lists);
  SearchOptions search = options.search;
  search.why = search.explain = false;
  search.top = 1;
  CandidateComparison comparison;
  std::optional<InputError> refusal;
  bool any = false;
  for (const Posed& each : posed) {
    ComparedCandidate& candidate = comparison.candidates.emplace_back();
    candidate.label = std::string(1, static_cast<char>('A' + comparison.candidates.size() - 1));
    candidate.name = each.name;
    if (options.begin) options.begin(candidate.label, candidate.name);
    try {
      find_candidate(each, search, candidate);
      any = true;
    } catch (const InputError& error) {
      if (!each.plan.empty()) throw;  // a file that is no plan
      candidate.note = plain_options(error.marked());
      candidate.job.reset();
      if (!refusal) refusal = error;
    }
  }
  if (!any && refusal) throw *refusal;
  require_same_training(comparison.candidates);
  judge_candidates(options, comparison);
  rank_candidates(comparison);
  return comparison;
}

std::string to_text(const CandidateComparison& comparison, const Style& style) {
  return report::candidates_text(comparison, style);
}

std::string to_json(const CandidateComparison& comparison) {
  return report::to_text(report::candidates_json(comparison));
}

std::string to_html(const CandidateComparison& comparison, const ReportOptions& options) {
  if (!comparison.fastest) return html::candidates_page(comparison).str();
  const ComparedCandidate& fastest = comparison.candidates[*comparison.fastest];
  html::PlanPage page;
  page.first = {html::candidates_section(comparison)};
  return plan_page_text(*fastest.plan, unwrap(*fastest.job), options, std::move(page));
}

std::string to_svg(const CandidateComparison& comparison) {
  return html::bar_chart_svg(html::candidates_chart(comparison));
}

}  // namespace nest
