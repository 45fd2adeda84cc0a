#include "html/sensitivity_section.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "report/sensitivity_report.h"

namespace nest::html {

HtmlSection sensitivity_section(const Sensitivity& sensitivity) {
  Markup body;
  body.element("p", report::binding_text(sensitivity), {{"class", "lead"}});
  HtmlTable table(report::sensitivity_title(sensitivity),
                  {{"resource", false}, {"now"}, {"then"}, {"saves"}, {"", false}, {"with the same plan"}},
                  "sensitivity-table");
  double largest = sensitivity.percent / 100;
  for (const ResourceEffect& effect : sensitivity.effects) largest = std::max(largest, effect.saves);
  const auto add = [&](const ResourceEffect& effect) {
    const double kept = std::clamp(effect.saves_kept.value_or(0), 0.0, std::max(0.0, effect.saves));
    const double more = std::max(0.0, effect.saves - kept);
    std::vector<Markup> cells(6);
    Markup name, plan;
    name.text(effect.name);
    if (!effect.strategy.empty()) plan.text("by ").element("code", effect.strategy);
    cells[0] = effect.strategy.empty() ? name : two_lines(name, plan);
    cells[1].text(effect.before);
    cells[2].text(effect.after);
    cells[3].text(report::saved_percent(effect.saves));
    cells[4] = bar_of({{"compute", kept / largest, "with the same plan: " + report::saved_percent(kept)},
                       {"recompute", more / largest, "by planning again: " + report::saved_percent(more)}},
                      fmt::format("{} of the step", report::saved_percent(effect.saves)));
    cells[5].text(effect.saves_kept ? report::saved_percent(*effect.saves_kept) : "does not run");
    table.add_cells(std::move(cells));
  };
  for (const ResourceEffect& effect : sensitivity.effects) add(effect);
  add(sensitivity.together);
  body.open("div", {{"class", "legend"}});
  body.add(legend_entry("compute", "with the same plan")).add(legend_entry("recompute", "more by planning again"));
  body.close();
  body.add(table.markup());
  body.element("p", report::sum_text(sensitivity), {{"class", "muted"}});
  body.element(
      "p",
      fmt::format("Of {} per step, {}, by {}.", format_duration(sensitivity.step_s),
                  sensitivity.judge == PlanJudge::simulation ? "executed on the simulated network" : "by the formula",
                  sensitivity.strategy),
      {{"class", "muted"}});
  return {"sensitivity", report::sensitivity_title(sensitivity), std::move(body)};
}

}  // namespace nest::html
