// What other plans would cost.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "html/plan_sections.h"
#include "plan/strategy_text.h"
#include "report/plan_why.h"

namespace nest::html {
namespace {

struct Alternative {
  std::string name;        // "tensor 4", "2"
  std::string verdict;     // "+4.1 %", "does not fit"
  std::string detail;      // its strategy, or why there is none
  double iteration_s = 0;  // 0: not known
  double excess = 0;       // over the plan of the page, relative; 0: none, or not known
};

std::vector<Alternative> overruled(const std::vector<WhyNot>& whys) {
  std::vector<Alternative> list;
  for (const WhyNot& why : whys) {
    Alternative other{why.name, report::why_verdict(why), "", 0, 0};
    if (other.verdict.empty()) continue;
    const bool settled = why.outcome == WhyOutcome::slower || why.outcome == WhyOutcome::not_worse;
    if (settled && why.plan) {
      other.detail = plan::strategy_text(why.plan->strategy);
      other.iteration_s = why.plan->prediction.iteration_s;
    }
    if (why.outcome == WhyOutcome::unknown) other.detail = "not searched to the end";
    if (why.outcome == WhyOutcome::slower || why.outcome == WhyOutcome::unknown) other.excess = why.excess;
    list.push_back(std::move(other));
  }
  return list;
}

std::vector<Alternative> ranked(const Plan& best, const std::vector<Plan>& plans) {
  std::vector<Alternative> list;
  for (std::size_t k = 0; k < plans.size(); ++k) {
    const double time_s = plans[k].expected().iteration_s;
    const double excess = time_s / best.expected().iteration_s - 1;
    list.push_back({fmt::format("{}", k + 2), fmt::format("{:+.2f} %", 100 * excess),
                    plan::strategy_text(plans[k].strategy), time_s, excess});
  }
  return list;
}

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

std::string lead(const std::vector<Alternative>& list) {
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
  const std::vector<Alternative> why_not = overruled(view.input.why_not);
  const std::vector<Alternative> next_best = ranked(view.input.report->plan, view.input.next_best);
  if (!why_not.empty()) {
    out.element("p", lead(why_not), {{"class", "lead"}});
    out.add(table_of(why_not, "Plans with one decision overruled", "why not …", "why-table"));
  }
  if (!next_best.empty()) {
    out.element("h3", "Next best plans");
    out.add(table_of(next_best, "Next best plans", "place", "next-table"));
  }
  return out;
}

}  // namespace nest::html
