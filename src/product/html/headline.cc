// What stands on top: the answer, and how the model is divided.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "html/plan_sections.h"
#include "nest/interval.h"
#include "plan/strategy_text.h"
#include "report/plan_why.h"

namespace nest::html {
namespace {

void figure_of(Markup& out, const std::string& value, const std::string& name) {
  out.open("div").element("dt", name).element("dd", value).close();
}

Markup figures(const PlanView& view) {
  const Prediction& p = view.plan.expected();
  Markup out;
  out.open("dl", {{"class", "figures"}});
  if (view.fits()) {
    const std::string told = sureness(p.spread);
    figure_of(out, format_duration(p.iteration_s), told.empty() ? "per step" : fmt::format("per step, {}", told));
    figure_of(out, format_count(p.samples_per_s * static_cast<double>(view.plan.run.sequence)), "tokens per second");
    figure_of(out, fmt::format("{:.0f}", p.tokens_per_s_per_device), "tokens/s per device");
    figure_of(out, format_percent(p.mfu), "model FLOP utilisation");
  }
  std::int64_t needed = 0;
  for (const StagePlan& stage : view.report.plan.stages) needed = std::max(needed, stage.memory.needed);
  figure_of(out, fmt::format("{} GiB", gibibytes(needed)),
            fmt::format("of {} GiB on the fullest device", gibibytes(view.report.plan.device_memory_bytes)));
  double risk = 0;
  for (const StagePlan& stage : view.report.plan.stages) risk = std::max(risk, stage.memory.out_of_memory);
  figure_of(out, report::risk_text(risk), "risk of running out of memory");
  if (view.report.tokens > 0 && view.fits()) {
    const report::TrainingTotals totals = report::training_totals(view.report);
    figure_of(out, format_duration(totals.seconds), fmt::format("for {} tokens", format_count(view.report.tokens)));
    figure_of(out, format_count(totals.device_hours), "device-hours");
    if (totals.price > 0) {
      figure_of(out, format_count(totals.price),
                fmt::format("at {:.2f} per device-hour", view.report.price_per_device_hour));
    }
  }
  return out.close();
}

Markup verdict(const PlanView& view) {
  Markup out;
  const auto say = [&](const std::string& strong, const std::string& rest) {
    out.open("p", {{"class", view.fits() ? "verdict" : "verdict over"}}).element("strong", strong).text(rest).close();
  };
  if (const std::string trained = report::trained_words(view.report); !trained.empty()) say("Trained: ", trained + ".");
  for (const std::string& note : view.report.model.architecture.notes) say("Note: ", note + ".");
  if (!view.plan.unsure.empty()) say("Not calibrated: ", view.plan.unsure + ".");
  if (!view.fits()) {
    say("This plan does not fit: ", view.report.plan.misfit + ".");
  } else if (!view.plan.search || view.plan.search->planner.empty()) {
    say("Estimated as given; ", "it was not searched for.");
  } else {
    const SearchRecord& search = *view.plan.search;
    const std::string effort =
        fmt::format("{} candidates, {} opened, {:.2f} s", format_integer(static_cast<std::int64_t>(search.candidates)),
                    format_integer(search.opened), search.wall_s);
    if (search.execution && !search.execution->formula.empty()) {
      say("Executed", fmt::format(". {} {}. Checked independently.", report::execution_text(search), effort));
    } else if (search.optimal && !search.fastest.empty()) {
      say("Proven", fmt::format(". {} {}. Checked independently.", report::tie_text(search), effort));
    } else if (search.optimal) {
      say("Proven optimal", fmt::format(" {} ({}), and checked independently.", report::searched_text(search), effort));
    } else {
      say("Stopped early", fmt::format(" ({}); no plan is faster than {}. Checked independently.", effort,
                                       format_duration(search.lower_bound_s)));
    }
  }
  return out;
}

const Traffic* find(const PlanView& view, TrafficKind kind) {
  const auto& all = view.network.traffic;
  const auto at = std::find_if(all.begin(), all.end(), [&](const Traffic& traffic) { return traffic.kind == kind; });
  return at == all.end() ? nullptr : &*at;
}

// "none", or what the stages do where they differ.
template <class Describe>
std::string of_stages(const PlanView& view, const Describe& describe) {
  const auto& stages = view.plan.stages;
  const std::string first = describe(stages.front());
  const bool same = std::all_of(stages.begin(), stages.end(), [&](const StagePlan& s) { return describe(s) == first; });
  return same ? first : "differs by stage";
}

// How the model is divided: what, where it stays, what is waited for.
Markup division(const PlanView& view) {
  const Strategy& s = view.strategy;
  const auto& parts = view.plan.prediction.breakdown_s;
  HtmlTable table("How the model is divided", {{"divided", false}, {"ranks"}, {"stays", false}, {"exposed"}},
                  "strategy-table");
  const auto row = [&](const char* name, std::int64_t degree, const std::string& how, TrafficKind kind,
                       double waited_s) {
    if (degree < 2) return;
    const Traffic* traffic = find(view, kind);
    std::vector<Markup> cells(4);
    Markup title, more;
    title.text(name);
    more.text(how);
    cells[0] = two_lines(title, more);
    cells[1].text(format_integer(degree));
    cells[2].text(traffic ? traffic->reach : "");
    cells[3].text(view.fits() ? format_duration(waited_s) : "–");
    table.add_cells(std::move(cells));
  };
  row("tensor", s.split.tp, s.split.sp ? "with sequence parallelism" : "without sequence parallelism",
      TrafficKind::tensor, parts.tp);
  row("context", s.split.cp, "keys and values passed around a ring", TrafficKind::context, parts.cp);
  row("expert", s.split.ep,
      fmt::format("{}{} replicas of every expert",
                  s.split.expert_tp() > 1 ? fmt::format("over {} ranks each, ", s.split.expert_tp()) : "",
                  format_integer(s.edp())),
      TrafficKind::expert, parts.ep);
  std::string schedule = to_string(s.schedule);
  if (s.virtual_stages > 1) schedule += fmt::format(", {} virtual stages per stage", s.virtual_stages);
  if (s.group != 0) schedule += fmt::format(", groups of {} micro-batches", s.group);
  row("pipeline", s.pp, schedule, TrafficKind::pipeline, parts.p2p + parts.bubble);
  row("data", s.dp,
      of_stages(view,
                [](const StagePlan& stage) {
                  return stage.zero == 0 ? std::string("replicated state") : fmt::format("ZeRO {}", stage.zero);
                }),
      TrafficKind::gradients, parts.grad_sync + parts.zero);
  Markup out;
  if (!table.is_empty()) out.add(table.markup());
  out.element(
      "p", fmt::format("{} micro-batch{} of {} × {} tokens per replica and step; recomputation: {}.{}",
                       format_integer(view.micro_batches), view.micro_batches == 1 ? "" : "es", s.micro_batch,
                       format_integer(view.plan.run.sequence),
                       of_stages(view, [](const StagePlan& stage) { return std::string(to_string(stage.recompute)); }),
                       s.pp > 1 && view.fits() ? " The pipeline's waits include its bubble." : ""));
  return out;
}

}  // namespace

Markup headline(const PlanView& view) {
  const Plan& plan = view.plan;
  Markup out;
  out.element("p", view.plan.search ? "training plan" : "estimated plan", {{"class", "kicker"}});
  out.open("h1").add(name_of(clip(view.report.plan.model.title, kLongestTitle)));
  out.text(fmt::format(" on {} × ", format_integer(view.strategy.devices_used())))
      .add(name_of(clip(plan.cluster.device, kLongestTitle)))
      .close();
  out.open("p", {{"class", "muted"}});
  out.text(fmt::format("{} parameters; cluster ", format_count(static_cast<double>(plan.model.parameters))))
      .add(name_of(clip(plan.cluster.name, kLongestTitle)));
  out.text(fmt::format("; {} sequences of {} tokens per step; {}, ", format_integer(plan.run.global_batch),
                       format_integer(plan.run.sequence), to_string(plan.run.precision)));
  out.text(fmt::format("{}, ", to_string(plan.run.optimizer)))
      .add(name_of(clip(plan.run.stack, kLongestTitle)))
      .close();
  out.add(figures(view));
  out.add(verdict(view));
  out.open("p").element("code", plan::strategy_text(view.plan), {{"class", "strategy"}}).close();
  return out.add(division(view));
}

}  // namespace nest::html
