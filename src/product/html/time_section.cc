// Where the time of a step goes.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "html/plan_sections.h"

namespace nest::html {
namespace {

struct Part {
  const char* name;
  const char* style;
  double seconds;
};

std::vector<Part> parts_of(const Prediction& prediction) {
  std::vector<Part> parts;
  parts.reserve(kBreakdownParts.size());
  for (const BreakdownPart& part : kBreakdownParts) {
    parts.push_back({part.name, part.key, prediction.breakdown_s.*part.seconds});
  }
  return parts;
}

std::string lead(const PlanView& view, const std::vector<Part>& parts) {
  const double step_s = view.plan.expected().iteration_s;
  std::vector<Part> losses(parts.begin() + 1, parts.end());
  std::stable_sort(losses.begin(), losses.end(), [](const Part& a, const Part& b) { return a.seconds > b.seconds; });
  std::string text = fmt::format("{} of the step is computing", format_percent(parts.front().seconds / step_s));
  if (losses[0].seconds > 0) {
    text += fmt::format("; the largest loss is {}, {}", losses[0].name, format_percent(losses[0].seconds / step_s));
  }
  if (losses[1].seconds > 0.005 * step_s) {
    text += fmt::format(", then {}, {}", losses[1].name, format_percent(losses[1].seconds / step_s));
  }
  text += ".";
  if (view.plan.executed) {
    text += fmt::format(" So it is when executed on the simulated network; the formula says {} for the step.",
                        format_duration(view.plan.prediction.iteration_s));
  }
  return text;
}

}  // namespace

Markup time_section(const PlanView& view) {
  const Prediction& prediction = view.plan.expected();
  const std::vector<Part> parts = parts_of(prediction);
  Markup out;
  out.element("p", lead(view, parts), {{"class", "lead"}});
  if (!view.plan.contended.empty()) {
    out.open("ul");
    for (const std::string& line : view.plan.contended) out.element("li", "Contended: " + line + ".");
    out.close();
  }
  std::vector<BarPart> whole;
  HtmlTable table("Where the time of a step goes", {{"part", false}, {"seconds"}, {"share"}, {"", false}},
                  "time-table");
  double largest = 0;
  for (const Part& part : parts) largest = std::max(largest, part.seconds);
  for (const Part& part : parts) {
    if (part.seconds <= 0) continue;
    const double share = part.seconds / prediction.iteration_s;
    whole.push_back({part.style, share, fmt::format("{}: {}", part.name, format_duration(part.seconds))});
    std::vector<Markup> cells(4);
    cells[0] = legend_entry(part.style, part.name);
    cells[1].text(fmt::format("{:.3f}", part.seconds));
    cells[2].text(format_percent(share));
    cells[3] = bar_of({{part.style, part.seconds / largest, ""}}, fmt::format("{} of the step", format_percent(share)));
    table.add_cells(std::move(cells));
  }
  std::vector<Markup> total(4);
  total[0].text("one step");
  total[1].text(fmt::format("{:.3f}", prediction.iteration_s));
  total[2].text("100.0 %");
  table.add_cells(std::move(total));
  out.open("div", {{"class", "tall"}}).add(bar_of(whole, "The parts of a step, as in the table below")).close();
  return out.add(table.markup());
}

}  // namespace nest::html
