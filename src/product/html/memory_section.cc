// What every stage keeps in memory, against the limit.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/units.h"
#include "html/plan_sections.h"

namespace nest::html {
namespace {

constexpr std::size_t kAllStages = 24;  // up to which every stage has a bar of its own

struct Part {
  const char* name;
  const char* style;
  std::int64_t StageMemory::*bytes;
};

constexpr std::array<Part, 6> kParts = {{{"weights", "m-weights", &StageMemory::weights},
                                         {"gradients", "m-gradients", &StageMemory::gradients},
                                         {"optimizer states", "m-optimizer", &StageMemory::optimizer},
                                         {"activations", "m-activations", &StageMemory::activations},
                                         {"workspace", "m-working", &StageMemory::working},
                                         {"buffers", "m-buffers", &StageMemory::buffers}}};
constexpr const char* kMargin = "margin and context";

bool alike(const PlanView& view, std::size_t a, std::size_t b) {
  const auto& stages = view.report.plan.stages;
  const auto x = static_cast<double>(stages[a].memory.needed), y = static_cast<double>(stages[b].memory.needed);
  return std::abs(x - y) <= 0.01 * std::max(x, y) && view.plan.stages[a].recompute == view.plan.stages[b].recompute &&
         view.plan.stages[a].zero == view.plan.stages[b].zero &&
         view.plan.stages[a].zero_outer == view.plan.stages[b].zero_outer;
}

std::string lead(const PlanView& view) {
  const std::size_t stage = view.plan.fullest_stage();
  const StageMemory& memory = view.report.plan.stages[stage].memory;
  const std::int64_t limit = view.report.plan.device_memory_bytes;
  const std::string who =
      view.strategy.pp > 1 ? fmt::format("Stage {} is the fullest: it", stage) : std::string("A device");
  if (memory.needed > limit) {
    return fmt::format("Does not fit. {} needs {} and a device has {}: {} too much, at its fullest moment ({}).", who,
                       format_bytes(memory.needed), format_bytes(limit), format_bytes(memory.needed - limit),
                       memory.moment);
  }
  return fmt::format("{} needs {} of {}, at its fullest moment ({}); {} stay free.", who, format_bytes(memory.needed),
                     format_bytes(limit), memory.moment, format_bytes(limit - memory.needed));
}

Markup memory_row(const PlanView& view, std::size_t stage, std::size_t last, double scale) {
  const StageMemory& memory = view.report.plan.stages[stage].memory;
  const StagePlan& plan = view.plan.stages[stage];
  std::vector<BarPart> parts;
  std::string spoken;
  for (const Part& part : kParts) {
    const std::int64_t bytes = memory.*part.bytes;
    if (bytes <= 0) continue;
    const std::string text = fmt::format("{} {}", part.name, format_bytes(bytes));
    parts.push_back({part.style, static_cast<double>(bytes) / scale, text});
    spoken += text + ", ";
  }
  const std::int64_t margin = memory.needed - memory.total;
  parts.push_back(
      {"m-margin", static_cast<double>(margin) / scale, fmt::format("{} {}", kMargin, format_bytes(margin))});
  const double limit = static_cast<double>(view.report.plan.device_memory_bytes) / scale;
  Markup row;
  row.open("div", {{"class", "lane"}});
  row.element("span", last == stage ? std::to_string(stage) : fmt::format("{}–{}", stage, last), {{"class", "who"}});
  row.open("div", {{"class", "grow"}});
  row.add(bar_of(parts,
                 fmt::format("Stage {}: {}in all {} of {}", stage, spoken, format_bytes(memory.needed),
                             format_bytes(view.report.plan.device_memory_bytes)),
                 limit));
  row.element("span", report::layers_label(view.report.model, plan, view.plan.stages[last]), {{"class", "under"}});
  row.close();
  row.element("span", gibibytes(memory.needed),
              {{"class", memory.needed > view.report.plan.device_memory_bytes ? "busy over" : "busy"}});
  return row.close();
}

Markup memory_table(const PlanView& view) {
  HtmlTable table("Memory of every stage in GiB",
                  {{"stage"},
                   {"layers", false},
                   {"weights"},
                   {"gradients"},
                   {"optimizer states"},
                   {"activations"},
                   {"in flight"},
                   {"workspace"},
                   {"buffers"},
                   {"used"},
                   {"with margin"},
                   {"recompute", false},
                   {"ZeRO"},
                   {"over"}},
                  "memory-table");
  for (std::size_t s = 0; s < view.plan.stages.size(); ++s) {
    const StagePlan& stage = view.plan.stages[s];
    const StageMemory& m = stage.memory;
    table.add({std::to_string(s), report::layers_label(view.report.model, stage), gibibytes(m.weights),
               gibibytes(m.gradients), gibibytes(m.optimizer), gibibytes(m.activations),
               fmt::format("{:.3g}", m.in_flight), gibibytes(m.working), gibibytes(m.buffers), gibibytes(m.total),
               gibibytes(m.needed), to_string(stage.recompute),
               fmt::format("{}{}", stage.zero, stage.zero_outer ? " hybrid" : ""), format_integer(stage.zero_degree)});
  }
  Markup body = table.markup();
  body.element(
      "p",
      "Used is what the framework's allocator holds; with margin adds what must stay free, the context and "
      "the communicators, and is what is compared with the device's memory. In flight: micro-batches whose activations "
      "are kept. "
      "Over: devices that share the state.",
      {{"class", "muted"}});
  return details("Memory of every stage in GiB", body);
}

}  // namespace

Markup memory_section(const PlanView& view) {
  const auto& stages = view.report.plan.stages;
  const std::int64_t limit = view.report.plan.device_memory_bytes;
  Markup out;
  out.element("p", lead(view), {{"class", "lead"}});
  out.open("figure", {{"class", "memory"}});
  out.open("p", {{"class", "legend"}});
  for (const Part& part : kParts) out.add(legend_entry(part.style, part.name));
  out.add(legend_entry("m-margin", kMargin)).close();
  const double scale = 1.02 * static_cast<double>(std::max(limit, stages[view.plan.fullest_stage()].memory.needed));
  out.open("div", {{"class", "lane head"}, {"aria-hidden", "true"}});
  out.element("span", view.strategy.pp > 1 ? "stage" : "", {{"class", "who"}});
  out.open("div", {{"class", "track grow"}});
  out.element("span", fmt::format("limit {}", format_bytes(limit)),
              {{"class", "last"}, {"style", fmt::format("left:{}", percentage(static_cast<double>(limit) / scale))}});
  out.close();
  out.element("span", "GiB", {{"class", "busy"}}).close();
  for (std::size_t s = 0; s < stages.size();) {
    std::size_t last = s;
    while (stages.size() > kAllStages && s > 0 && last + 2 < stages.size() && alike(view, s, last + 1)) ++last;
    out.add(memory_row(view, s, last, scale));
    s = last + 1;
  }
  out.element(
      "figcaption",
      stages.size() > kAllStages
          ? "Per device. Neighbouring stages that differ by less than a percent share a bar, that of the first of them."
          : "Per device of each stage, at its fullest moment.");
  out.close();
  return out.add(memory_table(view));
}

}  // namespace nest::html
