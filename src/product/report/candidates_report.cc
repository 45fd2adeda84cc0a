#include "report/candidates_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/index.h"
#include "base/layout.h"
#include "base/text.h"
#include "base/units.h"
#include "nest/interval.h"
#include "plan/plan_json.h"
#include "plan/strategy_text.h"
#include "report/compare_report.h"
#include "report/table.h"

namespace nest {
namespace {

double samples_of(const ComparedCandidate& candidate) { return real(candidate.plan->run.global_batch); }

}  // namespace

std::string_view to_string(CandidateOutcome outcome) {
  constexpr std::array kWords = {"plan", "does not fit", "no plan", "limit", "refused"};
  return kWords[at(outcome)];
}

double CandidateComparison::part_s(const ComparedCandidate& candidate, const BreakdownPart& part) const {
  return candidate.expected->breakdown_s.*part.seconds * samples_of(candidates[*fastest]) / samples_of(candidate);
}

double CandidateComparison::step_s(const ComparedCandidate& candidate) const {
  return candidate.expected->iteration_s * samples_of(candidates[*fastest]) / samples_of(candidate);
}

bool CandidateComparison::is_open() const {
  return !fastest && std::any_of(candidates.begin(), candidates.end(), [](const ComparedCandidate& candidate) {
    return candidate.outcome == CandidateOutcome::limit;
  });
}

}  // namespace nest

namespace nest::report {
namespace {

constexpr double kShown = 5e-4;      // of a ratio or of seconds: what three digits do not show
constexpr std::size_t kColumns = 5;  // of candidates beside the fastest in a table of differences

const ComparedCandidate& fastest_of(const CandidateComparison& comparison) {
  return comparison.candidates[*comparison.fastest];
}

// Of those that are compared, by rising time; the fastest first.
std::vector<const ComparedCandidate*> by_time(const CandidateComparison& comparison) {
  std::vector<const ComparedCandidate*> list;
  for (const ComparedCandidate& candidate : comparison.candidates) {
    if (candidate.expected) list.push_back(&candidate);
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const ComparedCandidate* a, const ComparedCandidate* b) { return a->times < b->times; });
  return list;
}

const ComparedCandidate* first_with_plan(const CandidateComparison& comparison) {
  const auto found = std::find_if(comparison.candidates.begin(), comparison.candidates.end(),
                                  [](const ComparedCandidate& candidate) { return candidate.plan.has_value(); });
  return found == comparison.candidates.end() ? nullptr : &*found;
}

std::string times_table(const CandidateComparison& comparison, const Style& style) {
  const bool devices = !has_same_devices(comparison);
  std::vector<Column> columns = {{"", Align::left, false, Ink::strong}, {"candidate", Align::left, true}, {"per step"}};
  columns.push_back({comparison.fastest ? "/ " + fastest_of(comparison).label : "ratio"});
  columns.push_back({"slower"});
  columns.push_back({"tokens/s"});
  if (devices) columns.push_back({"devices"});
  if (devices) columns.push_back({"hours/Gtok"});
  const std::size_t cells = columns.size();
  Table table(std::move(columns));
  for (const ComparedCandidate& candidate : comparison.candidates) {
    std::vector<std::string> row{candidate.label, candidate.name};
    if (candidate.expected) {
      const Prediction& expected = *candidate.expected;
      row.push_back(fmt::format("{} {}", format_duration(expected.iteration_s), sureness(expected.spread)));
      row.push_back(fmt::format("{:.3f}", candidate.times));
      row.push_back(&candidate == &fastest_of(comparison) ? "" : sure_text(candidate.probability_slower));
      row.push_back(format_count(candidate.tokens_per_s));
      if (devices) row.push_back(format_integer(candidate.plan->strategy.devices_used()));
      if (devices) row.push_back(fmt::format("{:.0f}", candidate.device_hours_per_gtoken));
    } else {
      row.emplace_back(to_string(candidate.outcome));
      row.resize(cells, "-");
    }
    table.add(std::move(row));
  }
  return table.render(style);
}

std::string strategies(const CandidateComparison& comparison) {
  std::string text;
  for (const ComparedCandidate& candidate : comparison.candidates) {
    std::string said;
    if (candidate.plan) {
      said = fmt::format("{}, {}, {}", plan::strategy_text(candidate.plan->strategy), memory_measures(*candidate.plan),
                         format_bytes(candidate.plan->prediction.peak_memory_bytes));
    }
    if (!candidate.note.empty()) said += (said.empty() ? "" : "; ") + candidate.note;
    text += wrap_after(fmt::format("  {}  ", candidate.label), said) + "\n";
  }
  return text;
}

// The fastest's seconds, and what the others have more.
std::string differences(const CandidateComparison& comparison, const Style& style) {
  const std::vector<const ComparedCandidate*> list = by_time(comparison);
  const std::vector<BreakdownPart> parts = shown_parts(comparison);
  std::string text;
  for (std::size_t first = 1; first < std::max<std::size_t>(list.size(), 2); first += kColumns) {
    const std::size_t end = std::min(list.size(), first + kColumns);
    std::vector<Column> columns = {{candidates_unit(comparison), Align::left}, {list[0]->label}};
    for (std::size_t k = first; k < end; ++k) columns.push_back({list[k]->label});
    Table table(std::move(columns));
    for (const BreakdownPart& part : parts) {
      const double base = comparison.part_s(*list[0], part);
      std::vector<std::string> row{part.name, fmt::format("{:.3f}", base)};
      for (std::size_t k = first; k < end; ++k) row.push_back(signed_seconds(comparison.part_s(*list[k], part) - base));
      table.add(std::move(row));
    }
    const double base = comparison.step_s(*list[0]);
    std::vector<std::string> sum{"all of it", fmt::format("{:.3f}", base)};
    for (std::size_t k = first; k < end; ++k) sum.push_back(signed_seconds(comparison.step_s(*list[k]) - base));
    table.add(std::move(sum));
    text += (text.empty() ? "" : "\n") + table.render(style);
  }
  return text;
}

}  // namespace

bool has_same_devices(const CandidateComparison& comparison) {
  const ComparedCandidate* first = first_with_plan(comparison);
  return std::all_of(comparison.candidates.begin(), comparison.candidates.end(), [&](const ComparedCandidate& each) {
    return !each.plan || each.plan->strategy.devices_used() == first->plan->strategy.devices_used();
  });
}

std::vector<BreakdownPart> shown_parts(const CandidateComparison& comparison) {
  std::vector<BreakdownPart> parts;
  for (const BreakdownPart& part : kBreakdownParts) {
    const bool any = std::any_of(
        comparison.candidates.begin(), comparison.candidates.end(),
        [&](const auto& candidate) { return candidate.expected && comparison.part_s(candidate, part) >= kShown; });
    if (any) parts.push_back(part);
  }
  return parts;
}

std::string candidates_title(const CandidateComparison& comparison) {
  const ComparedCandidate* first = first_with_plan(comparison);
  if (first == nullptr) return fmt::format("{} candidates", comparison.candidates.size());
  const Plan& plan = *first->plan;
  std::string text = clip(plan.model.title, 60);
  if (comparison.same_batch) {
    text += fmt::format(", {} x {} tokens per step", format_integer(plan.run.global_batch),
                        format_integer(plan.run.sequence));
  } else {
    text += fmt::format(", sequences of {} tokens", format_integer(plan.run.sequence));
  }
  return text;
}

std::string candidates_headline(const CandidateComparison& comparison) {
  if (comparison.is_open()) return "No candidate has a plan that fits before its time is over.";
  if (!comparison.fastest) return "No candidate fits.";
  const std::vector<const ComparedCandidate*> list = by_time(comparison);
  const ComparedCandidate& best = *list.front();
  std::string text = fmt::format("{} ({}) is fastest: {} per step", best.label, best.name,
                                 format_duration(best.expected->iteration_s));
  std::vector<std::string> equal;
  std::size_t next = 1;
  for (; next < list.size() && list[next]->times < 1 + kShown; ++next) equal.push_back(list[next]->label);
  if (!equal.empty()) text += fmt::format("; {} {} as fast", join_words(equal), equal.size() == 1 ? "is" : "are");
  if (next < list.size()) {
    text += fmt::format("; {} takes {:.3f} times as long for the same tokens ({} sure that it is slower)",
                        list[next]->label, list[next]->times, sure_text(list[next]->probability_slower));
  }
  if (list.size() == 1) text += "; no other fits";
  return text + ".";
}

std::string candidates_judge(const CandidateComparison& comparison) {
  std::string text = comparison.judge == PlanJudge::simulation
                         ? "Every candidate was executed on the simulated network of its cluster."
                         : "The formula prices all of them.";
  if (!comparison.judge_note.empty()) {
    text = fmt::format("The formula prices all of them, because {}.", comparison.judge_note);
  }
  return text + " Slower: how sure it is, errors that two predictions share left out.";
}

std::string candidates_unit(const CandidateComparison& comparison) {
  if (comparison.same_batch) return "seconds per step";
  return fmt::format("seconds for a step of {}", fastest_of(comparison).label);
}

std::string signed_seconds(double seconds) { return std::abs(seconds) < kShown ? "" : fmt::format("{:+.3f}", seconds); }

std::string candidates_text(const CandidateComparison& comparison, const Style& style) {
  std::string text = wrap_after("", candidates_title(comparison)) + "\n";
  text += style.paint(Ink::strong, wrap_after("", candidates_headline(comparison))) + "\n\n";
  text += times_table(comparison, style) + "\n" + strategies(comparison) + "\n";
  if (comparison.fastest) text += differences(comparison, style) + "\n";
  return text + wrap_after("", candidates_judge(comparison)) + "\n";
}

Json candidates_json(const CandidateComparison& comparison) {
  Json json = {{"schema", "nest.candidates/1"}, {"title", candidates_title(comparison)}};
  json["judge"] = comparison.judge == PlanJudge::simulation ? "simulation" : "formula";
  if (!comparison.judge_note.empty()) json["judge_note"] = comparison.judge_note;
  json["fastest"] = comparison.fastest ? Json(fastest_of(comparison).label) : Json(nullptr);
  json["same_batch"] = comparison.same_batch;
  json["candidates"] = Json::array();
  for (const ComparedCandidate& candidate : comparison.candidates) {
    Json row = {{"label", candidate.label},
                {"name", candidate.name},
                {"outcome", std::string(to_string(candidate.outcome))},
                {"planned", candidate.planned}};
    if (!candidate.note.empty()) row["note"] = candidate.note;
    if (candidate.expected) {
      const Prediction& expected = *candidate.expected;
      const Interval told = interval(expected.iteration_s, expected.spread);
      row["step_s"] = expected.iteration_s;
      row["interval_s"] = {told.low, told.high};
      row["tokens_per_s"] = candidate.tokens_per_s;
      row["devices"] = candidate.plan->strategy.devices_used();
      row["device_hours_per_gtoken"] = candidate.device_hours_per_gtoken;
      row["times_fastest"] = candidate.times;
      row["probability_slower"] = candidate.probability_slower;
      for (const BreakdownPart& part : kBreakdownParts) {
        const double seconds = comparison.part_s(candidate, part);
        row["breakdown_s"][part.key] = seconds;
        row["more_than_fastest_s"][part.key] = seconds - comparison.part_s(fastest_of(comparison), part);
      }
    }
    row["plan"] = candidate.plan ? plan::plan_to_json(*candidate.plan) : Json(nullptr);
    json["candidates"].push_back(std::move(row));
  }
  return json;
}

}  // namespace nest::report
