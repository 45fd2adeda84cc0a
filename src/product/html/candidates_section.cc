#include "html/candidates_section.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "nest/interval.h"
#include "plan/strategy_text.h"
#include "report/candidates_report.h"
#include "report/compare_report.h"

namespace nest::html {
namespace {

const ComparedCandidate* fastest_in(const CandidateComparison& comparison) {
  return comparison.fastest ? &comparison.candidates[*comparison.fastest] : nullptr;
}

Markup candidates_table(const CandidateComparison& comparison) {
  const ComparedCandidate* fastest = fastest_in(comparison);
  const std::vector<HtmlTable::Column> columns = {
      {"", false},       {"candidate", false}, {"per step"}, {fastest != nullptr ? "/ " + fastest->label : "ratio"},
      {"surely slower"}, {"tokens/s"},         {"devices"},  {"device-hours per billion tokens"},
      {"memory"}};
  HtmlTable table("Candidates side by side", columns, "candidates-table");
  for (const ComparedCandidate& candidate : comparison.candidates) {
    std::vector<Markup> cells(columns.size());
    cells[0].text(candidate.label);
    Markup more;
    if (candidate.plan) {
      more.element("code", plan::strategy_text(candidate.plan->strategy));
      more.text(", " + report::memory_measures(*candidate.plan) + ". ");
    }
    if (!candidate.note.empty()) more.text(candidate.note + ".");
    cells[1] = two_lines(name_of(candidate.name), more);
    if (candidate.expected) {
      const Prediction& expected = *candidate.expected;
      cells[2].text(format_duration(expected.iteration_s) + " " + sureness(expected.spread));
      cells[3].text(fmt::format("{:.3f}", candidate.times));
      if (&candidate != fastest) cells[4].text(sure_text(candidate.probability_slower));
      cells[5].text(format_count(candidate.tokens_per_s));
      cells[6].text(format_integer(candidate.plan->strategy.devices_used()));
      cells[7].text(fmt::format("{:.0f}", candidate.device_hours_per_gtoken));
      cells[8].text(format_bytes(candidate.plan->prediction.peak_memory_bytes));
    } else {
      cells[2].text(to_string(candidate.outcome));
    }
    table.add_cells(std::move(cells));
  }
  return table.markup();
}

// A bar per candidate, cut into the parts of its step, all on one scale.
Markup parts_bars(const CandidateComparison& comparison, const std::vector<BreakdownPart>& parts) {
  double longest = 0;
  for (const ComparedCandidate& candidate : comparison.candidates) {
    if (candidate.expected) longest = std::max(longest, comparison.step_s(candidate));
  }
  Markup out;
  out.open("div", {{"class", "legend"}});
  for (const BreakdownPart& part : parts) out.add(legend_entry(part.key, part.name));
  out.close();
  for (const ComparedCandidate& candidate : comparison.candidates) {
    if (!candidate.expected) continue;
    std::vector<BarPart> bar;
    for (const BreakdownPart& part : parts) {
      const double seconds = comparison.part_s(candidate, part);
      bar.push_back({part.key, seconds / longest, fmt::format("{}: {}", part.name, format_duration(seconds))});
    }
    out.open("div", {{"class", "lane"}});
    out.element("span", candidate.label, {{"class", "who"}});
    out.open("div", {{"class", "grow"}});
    out.add(bar_of(bar, fmt::format("{}: the parts of its time, as in the table below", candidate.label)));
    out.close();
    out.element("span", format_duration(comparison.step_s(candidate)), {{"class", "busy"}});
    out.close();
  }
  return out;
}

Markup difference_table(const CandidateComparison& comparison, const std::vector<BreakdownPart>& parts) {
  const ComparedCandidate& fastest = *fastest_in(comparison);
  std::vector<const ComparedCandidate*> others;
  std::vector<HtmlTable::Column> columns = {{report::candidates_unit(comparison), false}, {fastest.label}};
  for (const ComparedCandidate& candidate : comparison.candidates) {
    if (!candidate.expected || &candidate == &fastest) continue;
    others.push_back(&candidate);
    columns.push_back({candidate.label});
  }
  HtmlTable table("Differences by part of the step", columns, "differences-table");
  const auto add = [&](const std::string& name, const auto& seconds) {
    std::vector<std::string> row{name, fmt::format("{:.3f}", seconds(fastest))};
    for (const ComparedCandidate* other : others)
      row.push_back(report::signed_seconds(seconds(*other) - seconds(fastest)));
    table.add(row);
  };
  for (const BreakdownPart& part : parts) {
    add(part.name, [&](const ComparedCandidate& candidate) { return comparison.part_s(candidate, part); });
  }
  add("all of it", [&](const ComparedCandidate& candidate) { return comparison.step_s(candidate); });
  return table.markup();
}

}  // namespace

BarChart candidates_chart(const CandidateComparison& comparison) {
  BarChart chart;
  chart.title = report::candidates_title(comparison);
  chart.axis = fmt::format("{}, {}; less is better",
                           comparison.fastest ? report::candidates_unit(comparison) : "seconds per step",
                           comparison.judge == PlanJudge::simulation ? "executed" : "predicted");
  chart.series = {"per step"};
  for (const ComparedCandidate& candidate : comparison.candidates) {
    BarChart::Group group{candidate.label, {std::nullopt}, {""}};
    if (candidate.expected) {
      group.values = {comparison.step_s(candidate)};
      group.labels = {fmt::format("{:.3f}x", candidate.times)};
    }
    chart.groups.push_back(std::move(group));
  }
  if (const ComparedCandidate* fastest = fastest_in(comparison)) {
    chart.mark = fastest->label;
    chart.mark_value = comparison.step_s(*fastest);
  }
  return chart;
}

HtmlSection candidates_section(const CandidateComparison& comparison) {
  Markup body;
  body.element("p", report::candidates_headline(comparison), {{"class", "lead"}});
  body.add(candidates_table(comparison));
  if (comparison.fastest) {
    const std::vector<BreakdownPart> parts = report::shown_parts(comparison);
    body.element("h3", "Where they differ");
    body.open("figure").add(parts_bars(comparison, parts)).close();
    body.add(difference_table(comparison, parts));
  }
  body.element("p", report::candidates_judge(comparison), {{"class", "muted"}});
  if (const ComparedCandidate* fastest = fastest_in(comparison)) {
    body.element("p", fmt::format("The rest of this page is the plan of {}.", fastest->label), {{"class", "muted"}});
  }
  return {"candidates", "Candidates side by side", std::move(body)};
}

HtmlPage candidates_page(const CandidateComparison& comparison) {
  const std::string title = report::candidates_title(comparison);
  HtmlPage page(title);
  Markup header;
  header.element("h1", title);
  page.set_header(std::move(header));
  page.add(candidates_section(comparison));
  return page;
}

}  // namespace nest::html
