// What failures make of a plan, for people and for programs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/layout.h"
#include "base/units.h"
#include "door/job_data.h"
#include "door/plan_reports.h"
#include "nest/failures.h"
#include "plan/strategy_text.h"
#include "report/json.h"

namespace nest {
namespace {

std::string bytes_words(double bytes) { return format_bytes(std::llround(bytes)); }

// "16,384 devices, one of which fails every 3.09 h. …"
std::string failure_words(const FailureAnswer& answer, double tokens) {
  const Plan& plan = answer.answer.plans.front();
  std::string text = fmt::format(
      "Of {} devices one fails every {} ({} h each). The state, {}, is saved in {} every {} step{} ({}; Young: {}); "
      "coming back takes {}. ",
      format_integer(plan.strategy.devices_spanned()), format_duration(answer.system_mtbf_s),
      format_integer(std::llround(answer.options.device_mtbf_s / 3600)), bytes_words(answer.state_bytes),
      format_duration(answer.save_s), format_integer(answer.steps), answer.steps == 1 ? "" : "s",
      format_duration(answer.interval_s), format_duration(answer.young_interval_s), format_duration(answer.restart_s));
  text += fmt::format("{} of the time trains; saving takes {}, work that is lost {}, coming back {}. ",
                      format_percent(answer.goodput), format_percent(answer.saving), format_percent(answer.lost),
                      format_percent(answer.restarting));
  text += answer.restart_for_90_s > 0 ? fmt::format("90 % are kept while coming back takes at most {}. ",
                                                    format_duration(answer.restart_for_90_s))
                                      : "90 % are out of reach however fast it comes back. ";
  text += fmt::format("A step takes {} all told", format_duration(answer.step_s));
  if (tokens > 0) {
    const double per_step = static_cast<double>(plan.run.global_batch) * static_cast<double>(plan.run.sequence);
    const double steps = std::ceil(tokens / per_step);
    text += fmt::format(", {} tokens {} instead of {}", format_count(tokens), format_duration(steps * answer.step_s),
                        format_duration(steps * plan.expected().iteration_s));
  }
  text += ".";
  if (answer.options.repair_s > 0 && answer.nodes > 0) {
    text += fmt::format(" {} spare node{} for {} leave a chance below {} that more are away, each for {}.",
                        format_integer(answer.spares), answer.spares == 1 ? "" : "s", format_integer(answer.nodes),
                        format_percent(answer.options.spare_risk), format_duration(answer.options.repair_s));
  }
  return text;
}

std::string smaller_text(const FailureAnswer& answer) {
  if (answer.options.lost_nodes == 0) return "";
  const double whole_s = answer.answer.plans.front().expected().iteration_s;
  std::string text;
  for (const SmallerPlan& one : answer.smaller) {
    const std::string first = pad_right(fmt::format("  {} less", one.lost_nodes), 10);
    if (one.plan.stages.empty()) {
      text += fmt::format("{}{} devices: nothing fits\n", first, format_integer(one.devices));
      continue;
    }
    const double step_s = one.plan.expected().iteration_s;
    text += wrap_after(first,
                       fmt::format("{} devices, {} per step ({:+.1f} %), {}; {} move, {} of them from storage, in {}",
                                   format_integer(one.plan.strategy.devices_spanned()), format_duration(step_s),
                                   100 * (step_s / whole_s - 1), plan::strategy_text(one.plan.strategy),
                                   bytes_words(one.moved_bytes), bytes_words(one.from_storage_bytes),
                                   format_duration(one.move_s))) +
            "\n";
  }
  if (std::ssize(answer.smaller) < std::min(answer.options.lost_nodes, answer.nodes - 1)) {
    text += "  The time was over before plans of fewer were found.\n";
  }
  return text;
}

report::Json failures_json(const FailureAnswer& answer) {
  const FailureOptions& options = answer.options;
  report::Json json = {{"device_mtbf_s", options.device_mtbf_s},
                       {"system_mtbf_s", answer.system_mtbf_s},
                       {"checkpoint_bytes", answer.state_bytes},
                       {"checkpoint_bytes_per_s", options.storage_bytes_per_s},
                       {"save_s", answer.save_s},
                       {"restart_s", answer.restart_s},
                       {"steps_between_checkpoints", answer.steps},
                       {"interval_s", answer.interval_s},
                       {"young_interval_s", answer.young_interval_s},
                       {"goodput", answer.goodput},
                       {"saving", answer.saving},
                       {"lost", answer.lost},
                       {"restarting", answer.restarting},
                       {"iteration_s", answer.step_s},
                       {"restart_for_90_s", answer.restart_for_90_s},
                       {"searches", answer.searches}};
  if (answer.nodes > 0) json["nodes"] = answer.nodes;
  if (options.repair_s > 0) json.update({{"repair_s", options.repair_s}, {"spare_nodes", answer.spares}});
  json["smaller"] = report::Json::array();
  for (const SmallerPlan& one : answer.smaller) {
    report::Json row = {{"lost_nodes", one.lost_nodes}, {"devices", one.devices}};
    if (!one.plan.stages.empty()) {
      row.update({{"used", one.plan.strategy.devices_spanned()},
                  {"strategy", plan::strategy_text(one.plan.strategy)},
                  {"iteration_s", one.plan.expected().iteration_s},
                  {"moved_bytes", one.moved_bytes},
                  {"from_storage_bytes", one.from_storage_bytes},
                  {"most_received_bytes", one.most_received_bytes},
                  {"move_s", one.move_s}});
    }
    json["smaller"].push_back(std::move(row));
  }
  return json;
}

html::HtmlSection failures_section(const FailureAnswer& answer, double tokens) {
  html::Markup body;
  body.element("p", failure_words(answer, tokens), {{"class", "lead"}});
  body.add(html::bar_of({{"compute", answer.goodput, "trains " + format_percent(answer.goodput)},
                         {"optimizer", answer.saving, "saving " + format_percent(answer.saving)},
                         {"bubble", answer.lost, "lost " + format_percent(answer.lost)},
                         {"excess", answer.restarting, "coming back " + format_percent(answer.restarting)}},
                        fmt::format("{} of the time trains", format_percent(answer.goodput))));
  if (!answer.smaller.empty()) {
    body.element("h3", "With fewer nodes");
    const double whole_s = answer.answer.plans.front().expected().iteration_s;
    html::HtmlTable table(
        "Plans with fewer nodes",
        {{"nodes lost"}, {"devices"}, {"per step"}, {"longer"}, {"moved"}, {"from storage"}, {"in"}, {"plan", false}},
        "failures-table");
    for (const SmallerPlan& one : answer.smaller) {
      if (one.plan.stages.empty()) {
        table.add({format_integer(one.lost_nodes), format_integer(one.devices), "", "", "", "", "", "nothing fits"});
        continue;
      }
      const double step_s = one.plan.expected().iteration_s;
      table.add({format_integer(one.lost_nodes), format_integer(one.plan.strategy.devices_spanned()),
                 format_duration(step_s), fmt::format("{:.1f} %", 100 * (step_s / whole_s - 1)),
                 bytes_words(one.moved_bytes), bytes_words(one.from_storage_bytes), format_duration(one.move_s),
                 plan::strategy_text(one.plan.strategy)});
    }
    body.add(table.markup());
  }
  return {"failures", "Failures", std::move(body)};
}

}  // namespace

std::string to_text(const FailureAnswer& answer, const ReportOptions& options) {
  std::string text = to_text(answer.answer, options);
  if (answer.answer.plans.empty()) return text;
  text += "\n" + wrap_after("", failure_words(answer, options.tokens)) + "\n";
  if (const std::string table = smaller_text(answer); !table.empty()) {
    text += "\nOn fewer nodes, with the same global batch:\n" + table;
  }
  return text;
}

std::string to_json(const FailureAnswer& answer, const ReportOptions& options) {
  if (answer.answer.plans.empty()) return to_json(answer.answer, options);
  report::Json json = report::Json::parse(to_json(answer.answer, options));
  json["failures"] = failures_json(answer);
  return report::to_text(json);
}

std::string to_html(const FailureAnswer& answer, const ReportOptions& options) {
  NEST_CHECK(!answer.answer.plans.empty(), "there is a plan to draw");
  html::PlanPage page;
  page.why_not = answer.answer.why_not;
  page.next_best.assign(answer.answer.plans.begin() + 1, answer.answer.plans.end());
  page.first.push_back(failures_section(answer, options.tokens));
  return plan_page_text(answer.answer.plans.front(), unwrap(answer.answer.job), options, std::move(page));
}

}  // namespace nest
