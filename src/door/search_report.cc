// Answers of the search for people and for programs.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/layout.h"
#include "base/units.h"
#include "door/job_data.h"
#include "door/plan_reports.h"
#include "html/page.h"
#include "html/sensitivity_section.h"
#include "nest/search.h"
#include "plan/plan_json.h"
#include "plan/strategy_text.h"
#include "report/plan_why.h"
#include "report/sensitivity_report.h"
#include "report/table.h"

namespace nest {
namespace {

// Plans that differ in nothing else may differ in where their replicas sit.
std::string placement_note(const Strategy& strategy) {
  std::string note;
  if (strategy.dp > 1 && strategy.pp > 1 && strategy.dp_inner != strategy.dp)
    note += fmt::format(" dp_inner={}", strategy.dp_inner);
  if (strategy.pitch > 0) note += fmt::format(" pitch={}", strategy.pitch);
  return note;
}

std::string other_plans(const std::vector<Plan>& plans) {
  std::string text;
  const double best = plans.front().expected().iteration_s;
  for (std::size_t k = 1; k < plans.size(); ++k) {
    const double time = plans[k].expected().iteration_s;
    text += fmt::format("  {:>3}  {:>10}  {:>+7.2f} %  {}\n", k + 1, format_duration(time), 100 * (time / best - 1),
                        plan::strategy_text(plans[k].strategy) + placement_note(plans[k].strategy));
  }
  return text.empty() ? text : "Next best:\n" + text + "\n";
}

std::string memory_parts(const StageMemory& memory, std::int64_t needed, std::int64_t room) {
  const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / 0x1p30; };
  return fmt::format(
      "weights {:.1f} + gradients {:.1f} + optimizer states {:.1f} + activations {:.1f} + workspace {:.1f} + buffers "
      "{:.1f}; "
      "with margin and context {:.1f} of {:.1f} GiB",
      gib(memory.weights), gib(memory.gradients), gib(memory.optimizer), gib(memory.activations), gib(memory.working),
      gib(memory.buffers), gib(needed), gib(room));
}

std::string no_fit_text(const cost::Job& job, const NoFit& none) {
  const std::int64_t room = job.cluster.device.memory_bytes;
  const auto total = static_cast<std::int64_t>(none.state_bytes);
  std::string text = wrap_after("", fmt::format("{} needs {} for weights, gradients and optimizer; {} x {} have {}.",
                                                job.title, format_bytes(total), format_integer(job.cluster.devices),
                                                job.cluster.device.name, format_bytes(room * job.cluster.devices))) +
                     "\n";
  if (none.closest) {
    const NoFit::Closest& closest = *none.closest;
    const StagePlan& stage = closest.plan.stages[static_cast<std::size_t>(closest.stage)];
    text += wrap_after(
                "", fmt::format("The closest plan ({}, recompute {}, ZeRO {}) lacks {} on stage {}:",
                                plan::strategy_text(closest.plan.strategy), to_string(stage.recompute), stage.zero,
                                format_bytes(std::max<std::int64_t>(0, closest.needed_bytes - room)), closest.stage)) +
            "\n\n";
    text += wrap_after("  ", memory_parts(stage.memory, closest.needed_bytes, room)) + "\n\n";
  }
  text += "What would make it fit, each alone:\n";
  // The time before the plan: what is cut off on narrow terminals is the end.
  report::Table table({{"", report::Align::left}, {""}, {"", report::Align::left, true}});
  const auto add = [&](const std::string& change, const Plan& plan) {
    table.add({change, format_duration(plan.prediction.iteration_s) + " per step", plan::strategy_text(plan)});
  };
  if (none.larger) {
    const std::int64_t devices = none.larger->cluster.devices;
    add(fmt::format("{} devices{}", format_integer(devices), none.fewest ? "" : " at most"), *none.larger);
  }
  for (const NoFit::Change& change : none.changes) add(change.name, change.plan);
  if (none.closest) {
    table.add({fmt::format("{} of memory", format_bytes(none.closest->needed_bytes)), "",
               "per device, for the closest plan"});
  }
  return text + table.render(Style());
}

report::Json no_fit_json(const cost::Job& job, const NoFit& none) {
  const std::int64_t room = job.cluster.device.memory_bytes;
  report::Json json = {{"schema", "nest.no-plan/1"},
                       {"state_bytes", report::json_number(none.state_bytes)},
                       {"device_memory_bytes", room},
                       {"devices", job.cluster.devices}};
  if (none.closest) {
    json["closest"] = {{"strategy", plan::strategy_text(none.closest->plan.strategy)},
                       {"stage", none.closest->stage},
                       {"needed_bytes", none.closest->needed_bytes},
                       {"missing_bytes", none.closest->needed_bytes - room}};
  }
  if (none.larger) {
    json["would_fit"] = {{"devices", none.larger->cluster.devices},
                         {"fewest", none.fewest},
                         {"strategy", plan::strategy_text(none.larger->strategy)},
                         {"iteration_s", none.larger->prediction.iteration_s}};
  }
  for (const NoFit::Change& change : none.changes) {
    json["changes"].push_back({{"change", change.name},
                               {"strategy", plan::strategy_text(change.plan)},
                               {"iteration_s", change.plan.prediction.iteration_s}});
  }
  json["text"] = no_fit_text(job, none);
  return json;
}

// The same as text on a page.
std::string no_fit_page(const Answer& answer, const ReportOptions& options) {
  const cost::Job& job = unwrap(answer.job);
  const std::string where = fmt::format("{} x {}", format_integer(job.cluster.devices), job.cluster.device.name);
  html::HtmlPage page(fmt::format("{} on {}: no plan fits", clip(job.title, 60), where));
  html::Markup header;
  header.element("p", "training plan", {{"class", "kicker"}});
  header.open("h1").add(html::name_of(clip(job.title, 60))).text(" on " + where).close();
  header.element("p", "No plan fits in memory.");
  page.set_header(std::move(header));
  html::Markup body;
  body.element("pre", answer.no_fit ? no_fit_text(job, *answer.no_fit) : std::string("The search was stopped."));
  page.add({"fit", "What is missing, and what would make it fit", std::move(body)});
  if (!options.command.empty()) {
    html::Markup command;
    command.element("pre", html::shell_line(options.command));
    page.add({"inputs", "Reproduce", std::move(command)});
  }
  return page.str();
}

}  // namespace

std::string to_text(const Answer& answer, const ReportOptions& options) {
  const cost::Job& job = unwrap(answer.job);
  if (answer.plans.empty()) return answer.no_fit ? no_fit_text(job, *answer.no_fit) : std::string();
  const Plan& plan = answer.plans.front();
  std::string text = report::plan_text(plan_report(plan, job, options), options.style) + "\n";
  text += report::placement_text(plan, job.cluster) + "\n" + other_plans(answer.plans);
  if (const std::string why = report::why_text(answer.why_not, options.style); !why.empty()) text += why + "\n";
  if (answer.sensitivity) text += report::sensitivity_text(*answer.sensitivity, options.style) + "\n";
  return text + report::certificate_text(plan) + "\n";
}

std::string to_json(const Answer& answer, const ReportOptions& options) {
  const cost::Job& job = unwrap(answer.job);
  if (answer.plans.empty()) return report::to_text(no_fit_json(job, answer.no_fit.value_or(NoFit())));
  report::Json json = report::plan_json(plan_report(answer.plans.front(), job, options));
  json["why_not"] = report::why_json(answer.why_not);
  if (answer.sensitivity) json["sensitivity"] = report::sensitivity_json(*answer.sensitivity);
  for (std::size_t k = 1; k < answer.plans.size(); ++k)
    json["alternatives"].push_back(plan::plan_to_json(answer.plans[k]));
  return report::to_text(json);
}

std::string to_html(const Answer& answer, const ReportOptions& options) {
  if (answer.plans.empty()) return no_fit_page(answer, options);
  html::PlanPage page;
  page.why_not = answer.why_not;
  if (answer.sensitivity) page.last = {html::sensitivity_section(*answer.sensitivity)};
  page.next_best.assign(answer.plans.begin() + 1, answer.plans.end());
  return plan_page_text(answer.plans.front(), unwrap(answer.job), options, std::move(page));
}

}  // namespace nest
