// The plan of one point, opened by its address: the style sheet shows a panel while it is the target.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/units.h"
#include "doc/value.h"
#include "html/page.h"
#include "nest/interval.h"
#include "plan/plan_json.h"
#include "sweep/page.h"
#include "sweep/view.h"

namespace nest::sweep {
namespace {

using html::Markup;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostStages = 16;

void figure_of(Markup& out, const std::string& value, const std::string& name) {
  out.open("div").element("dt", name).element("dd", value).close();
}

std::string gib(std::int64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / 0x1p30); }

Markup figures_of(const SweepResult& r, const Plan& plan) {
  Markup out;
  out.open("dl", {{"class", "figures"}});
  const std::string told = sureness(plan.expected().spread);
  figure_of(out, format_duration(r.step_s), told.empty() ? "per step" : "per step, " + told);
  figure_of(out, format_count(r.tokens_per_s), "tokens per second");
  figure_of(out, format_percent(r.mfu), "model FLOP utilisation");
  figure_of(out, gib(r.memory_bytes), fmt::format("of {} on the fullest device", gib(plan.device_memory_bytes)));
  figure_of(out, fmt::format("{:.4g}", r.device_hours_per_gtoken), "device-hours for a billion tokens");
  if (r.cost_per_gtoken) figure_of(out, fmt::format("{:.4g}", *r.cost_per_gtoken), "cost of a billion tokens");
  if (r.days) figure_of(out, fmt::format("{:.3g}", *r.days), "days for all tokens");
  if (r.cost) figure_of(out, format_count(*r.cost), "cost of all tokens");
  return out.close();
}

Markup breakdown_of(const Plan& plan) {
  const Prediction& expected = plan.expected();
  std::vector<html::BarPart> parts;
  Markup legend, out;
  legend.open("p", {{"class", "legend"}});
  for (const BreakdownPart& part : kBreakdownParts) {
    const double seconds = expected.breakdown_s.*part.seconds;
    const double share = expected.iteration_s > 0 ? seconds / expected.iteration_s : 0;
    if (share < 0.0005) continue;
    const std::string text = fmt::format("{} {}", part.name, format_percent(share));
    parts.push_back({part.key, share, text});
    legend.add(html::legend_entry(part.key, text));
  }
  legend.close();
  out.open("div", {{"class", "tall"}}).add(html::bar_of(parts, "Where the time goes")).close();
  return out.add(legend);
}

Markup stages_of(const Plan& plan) {
  html::HtmlTable table("Stages of the pipeline",
                        {{"stage"}, {"layers", false}, {"ms"}, {"recompute", false}, {"ZeRO"}, {"GiB"}});
  const std::size_t shown = std::min(plan.stages.size(), kMostStages);
  for (std::size_t s = 0; s < shown; ++s) {
    const StagePlan& stage = plan.stages[s];
    table.add({std::to_string(s), fmt::format("{}–{}", stage.first, stage.last),
               fmt::format("{:.2f}", 1e3 * stage.time.total), to_string(stage.recompute), std::to_string(stage.zero),
               fmt::format("{:.1f}", static_cast<double>(stage.memory.needed) / 0x1p30)});
  }
  Markup out = table.markup();
  if (shown < plan.stages.size()) {
    out.element("p", fmt::format("and {} more stages", plan.stages.size() - shown), {{"class", "muted"}});
  }
  return out;
}

// The plan without the documents that many points share.
std::string short_plan(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return text;
  for (const char* document : {"stack", "profile"}) json.erase(document);
  if (json.contains("model") && json["model"].is_object()) json["model"].erase("config");
  if (json.contains("cluster") && json["cluster"].is_object()) json["cluster"].erase("description");
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A path as a shell reads it.
std::string in_shell(const std::string& path) {
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

Markup files_of(const SweepResults& results, const SweepResult& result, const std::string& plan) {
  Markup out, body;
  body.element("p", "Without the documents of model, cluster and stack, which the database has:", {{"class", "muted"}});
  body.element("pre", short_plan(plan));
  out.element(
      "p", "The whole of it, from the database; nest eval, export, simulate and check open it:", {{"class", "muted"}});
  out.element("pre",
              fmt::format("sqlite3 {} 'select plan from \"{}\" where point = {}' > plan.json\nnest eval plan.json "
                          "--html plan.html",
                          in_shell(results.database), results.study.name, result.point));
  return out.add(html::details("The plan as JSON (nest.plan/3)", body));
}

}  // namespace

const char* const kPanelStyle = R"css(
.point{display:none}
.point:target{display:block;position:fixed;inset:0 0 0 auto;width:min(44rem,100vw);z-index:2;overflow:auto;background:var(--back);border-left:1px solid var(--muted);padding:1.2rem 1.3rem 3rem;box-shadow:-1rem 0 3rem #0005}
.point h3{margin:.1rem 3.4rem .2rem 0;font-size:1.15rem}
.close{position:sticky;top:0;float:right;padding:.2rem .6rem;border:1px solid var(--line);border-radius:4px;background:var(--back);text-decoration:none}
.point pre{max-height:18rem}
.heat td,.heat th{padding:0;text-align:center;border-bottom:0}
.heat{border-spacing:2px;border-collapse:separate;min-width:0}
.heat a{display:block;padding:.3rem .5rem;min-width:3.1rem;text-decoration:none;color:inherit}
.heat tbody th,.heat thead th{padding:.2rem .5rem;color:var(--muted);font-size:.8rem;white-space:nowrap;text-align:right}
.heat thead th{text-align:center}
.heat .hollow{background:var(--panel);color:var(--over)}
.heats{display:flex;flex-wrap:wrap;gap:.6rem 1.6rem}
.heats figure{margin:.2rem 0;max-width:100%}
.heats figcaption{color:var(--ink);margin:0}
@media print{.point,.point:target{display:none}}
)css";

std::string panel_id(std::int64_t point) { return fmt::format("p{}", point); }

html::Markup point_panel(const SweepResults& results, const SweepResult& result, const std::string& plan) {
  Markup out;
  const std::string id = panel_id(result.point);
  out.open("article", {{"class", "point"}, {"id", id}, {"aria-labelledby", id + "-title"}});
  out.element("a", "Close", {{"class", "close"}, {"href", "#closed"}});
  out.element("p", fmt::format("point {}", format_integer(result.point)), {{"class", "kicker"}});
  const std::string label = point_label(results.study, result.point);
  out.element("h3", label.empty() ? results.study.name : label, {{"id", id + "-title"}});
  if (plan.empty()) {
    out.element("p", result.reason, {{"class", "over"}});
    return out.close();
  }
  const Plan read = plan::read_plan(doc::parse_json(fmt::format("point {}", result.point), plan));
  out.open("p").element("code", result.strategy, {{"class", "strategy"}}).close();
  if (!result.reason.empty()) out.element("p", result.reason, {{"class", "over"}});
  out.element("p", fmt::format("{} on {} of {} x {} ({})", clip(read.model.title, 100),
                               format_integer(result.devices_used), format_integer(read.cluster.devices),
                               clip(read.cluster.device, 100), clip(read.cluster.name, 100)));
  out.add(figures_of(result, read)).add(breakdown_of(read)).add(stages_of(read)).add(files_of(results, result, plan));
  return out.close();
}

}  // namespace nest::sweep
