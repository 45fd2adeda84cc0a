#include "html/plan_page.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "html/plan_sections.h"

namespace nest::html {

std::string count_of(std::int64_t count, const std::string& name) {
  return fmt::format("{} {}{}", format_integer(count), clip(name, 30), count == 1 ? "" : "s");
}

std::string gibibytes(std::int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / 0x1p30); }

std::string milliseconds(double seconds) { return fmt::format("{:.2f}", 1e3 * seconds); }

HtmlPage plan_page(const PlanPage& input) {
  NEST_CHECK(input.report != nullptr && input.job != nullptr, "a page has something to show");
  NEST_CHECK(!input.report->plan.stages.empty(), "the plan of a page is priced");
  const PlanView view(input);
  HtmlPage page(fmt::format("{} on {} x {}", clip(input.report->plan.model.title, kLongestTitle),
                            format_integer(view.strategy.devices_used()),
                            clip(view.plan.cluster.device, kLongestTitle)));
  page.set_header(headline(view));
  for (const HtmlSection& section : input.first) page.add(section);
  page.add({"cluster", "On the cluster", cluster_section(view)});
  if (view.fits()) page.add({"schedule", "One step over time", timeline_section(view)});
  if (view.fits()) page.add({"time", "Where the time goes", time_section(view)});
  page.add({"memory", "Memory", memory_section(view)});
  if (view.fits()) page.add({"network", "The network", network_section(view)});
  if (!input.why_not.empty() || !input.next_best.empty()) {
    page.add({"alternatives", "Other plans", alternatives_section(view)});
  }
  for (const HtmlSection& section : input.last) page.add(section);
  page.add({"inputs", "Reproduce", inputs_section(view)});
  Markup footer;
  footer.element("p",
                 fmt::format("nest {}. Predicted, not measured. This file holds everything it shows and loads nothing.",
                             input.version),
                 {{"class", "muted"}});
  page.set_footer(std::move(footer));
  return page;
}

}  // namespace nest::html
