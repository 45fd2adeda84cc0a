#include "html/compare_section.h"

#include <fmt/format.h>

#include "base/units.h"
#include "plan/strategy_text.h"

namespace nest::html {
namespace {

Markup table_of(const report::CompareReport& report) {
  const ComparedPlanner* base = report.baseline();
  std::vector<HtmlTable::Column> columns = {{"planner", false}, {report.simulated ? "predicted" : "per step"}};
  if (report.simulated) columns.push_back({"simulated"});
  columns.push_back({base != nullptr ? "/ " + base->name : "ratio"});
  for (const char* title : {"tokens/s", "devices", "memory", "search"}) columns.push_back({title});
  HtmlTable table("Planners side by side", columns, "compare-table");
  for (const ComparedPlanner& planner : report.planners) {
    std::vector<Markup> cells(columns.size());
    Markup name, more;
    name.text(planner.name);
    if (planner.plan) {
      more.element("code", plan::strategy_text(planner.plan->strategy));
      more.text(", " + report::memory_measures(*planner.plan) + ". ");
    }
    for (const std::string& note : {planner.note, planner.simulation_note}) {
      if (!note.empty()) more.text(note + ". ");
    }
    cells[0] = two_lines(name, more);
    std::size_t next = 1;
    if (planner.plan) {
      const Prediction& prediction = planner.plan->prediction;
      cells[next++].text(format_duration(prediction.iteration_s));
      if (report.simulated) cells[next++].text(planner.simulated_s ? format_duration(*planner.simulated_s) : "-");
      cells[next++].text(fmt::format("{:.3f}", report::ratio(report, planner).value_or(0)));
      cells[next++].text(format_count(prediction.samples_per_s * static_cast<double>(report.about.run.sequence)));
      cells[next++].text(format_integer(planner.plan->strategy.devices_used()));
      cells[next++].text(format_bytes(prediction.peak_memory_bytes));
    }
    cells.back().text(format_duration(planner.wall_s));
    table.add_cells(std::move(cells));
  }
  return table.markup();
}

Markup sources(const report::CompareReport& report) {
  Markup list;
  list.open("ul");
  for (const ComparedPlanner& planner : report.planners) {
    list.element("li", fmt::format("{}: {} ({})", planner.name, planner.idea, planner.source));
  }
  return list.close();
}

}  // namespace

BarChart compare_chart(const report::CompareReport& report) {
  BarChart chart;
  chart.title = fmt::format("{} on {} x {}", report.about.model.title, format_integer(report.about.cluster.devices),
                            report.about.cluster.device);
  chart.axis = fmt::format("seconds per step, {}; less is better", report.is_executed() ? "executed" : "predicted");
  chart.series = {"per step"};
  for (const ComparedPlanner& planner : report.planners) {
    BarChart::Group group{planner.name, {std::nullopt}, {""}};
    if (planner.plan) {
      group.values = {report.seconds(planner)};
      group.labels = {fmt::format("{:.3f}x", report::ratio(report, planner).value_or(0))};
    }
    chart.groups.push_back(std::move(group));
  }
  if (const ComparedPlanner* base = report.baseline()) {
    chart.mark = base->name;
    chart.mark_value = report.seconds(*base);
  }
  return chart;
}

HtmlSection compare_section(const report::CompareReport& report) {
  Markup body;
  body.element("p", report::compare_headline(report), {{"class", "lead"}});
  body.open("figure").add(bar_chart(compare_chart(report))).close();
  body.add(table_of(report));
  body.element("p",
               "One cost model estimates every planner's plan on the cluster's own network, and an independent check "
               "accepted each of them. Each planner ran in one thread.",
               {{"class", "muted"}});
  body.add(details("Who they are", sources(report)));
  return {"planners", "Planners side by side", std::move(body)};
}

HtmlPage compare_page(const report::CompareReport& report) {
  const std::string title = compare_chart(report).title;
  HtmlPage page(title);
  Markup header;
  header.element("h1", title);
  page.set_header(std::move(header));
  page.add(compare_section(report));
  return page;
}

}  // namespace nest::html
