// What other plans would cost.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "html/plan_sections.h"

namespace nest {
namespace {

Markup table_of(const std::vector<Alternative>& list, const char* label, const char* first, const char* id) {
  HtmlTable table(label, {{first, false}, {"cost"}, {"per step"}, {"", false}}, id);
  double most = 0.05;
  for (const Alternative& other : list) most = std::max(most, other.excess);
  for (const Alternative& other : list) {
    std::vector<Markup> cells(4);
    Markup name, plan;
    name.text(other.name);
    if (!other.detail.empty()) plan.element("code", other.detail);
    cells[0] = two_lines(name, plan);
    cells[1].text(other.verdict);
    if (other.iteration_s > 0) cells[2].text(format_duration(other.iteration_s));
    if (other.excess > 0) cells[3] = bar_of({{"excess", other.excess / most, ""}}, other.verdict);
    table.add_cells(std::move(cells));
  }
  return table.markup();
}

std::string lead(const PlanView& view) {
  const auto& list = view.input.why_not;
  const Alternative* closest = nullptr;
  for (const Alternative& other : list) {
    if (other.iteration_s > 0 && (closest == nullptr || other.excess < closest->excess)) closest = &other;
  }
  std::string text = "Each row overrules one decision; below it, the best plan that is left. ";
  if (closest != nullptr) text += fmt::format("The closest is {}: {}. ", closest->name, closest->verdict);
  return text;
}

}  // namespace

Markup alternatives_section(const PlanView& view) {
  Markup out;
  if (!view.input.why_not.empty()) {
    out.element("p", lead(view), {{"class", "lead"}});
    out.add(table_of(view.input.why_not, "Plans with one decision overruled", "why not …", "why-table"));
  }
  if (!view.input.next_best.empty()) {
    out.element("h3", "Next best plans");
    out.add(table_of(view.input.next_best, "Next best plans", "place", "next-table"));
  }
  return out;
}

}  // namespace nest
