// Answers to demands for people and for programs.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/layout.h"
#include "base/units.h"
#include "cost/memory.h"
#include "door/demand_limits.h"
#include "door/job_data.h"
#include "door/plan_reports.h"
#include "nest/demand.h"
#include "nest/interval.h"
#include "plan/strategy_text.h"
#include "report/json.h"

namespace nest {
namespace {

double total_s(const DemandAnswer& answer, const Plan& plan) { return answer.steps * plan.expected().iteration_s; }

double total_cost(const DemandAnswer& answer, const Plan& plan) {
  return total_s(answer, plan) / 3600 * static_cast<double>(plan.strategy.devices_spanned()) *
         answer.demand.price_per_device_hour;
}

std::string money(double amount) { return format_integer(std::llround(amount)); }

// "10 days and 70,000 for 1.00 T tokens"
std::string demand_words(const DemandAnswer& answer) {
  const Demand& demand = answer.demand;
  std::string text;
  if (demand.deadline_s > 0) text = format_duration(demand.deadline_s);
  if (demand.budget > 0) text += (text.empty() ? "" : " and ") + money(demand.budget);
  return fmt::format("{} for {} tokens", text, format_count(demand.tokens));
}

// "8.78 days ± 6 %, 67,431 at 2.50 per device-hour"
std::string takes_words(const DemandAnswer& answer, const Plan& plan) {
  std::string text = format_duration(total_s(answer, plan));
  if (const std::string sure = sureness(plan.expected().spread); !sure.empty()) text += " " + sure;
  if (answer.demand.price_per_device_hour > 0) {
    text += fmt::format(", {} at {:.2f} per device-hour", money(total_cost(answer, plan)),
                        answer.demand.price_per_device_hour);
  }
  return text;
}

// Of the plan that is told. Where execution missed what the formula promised, nothing is proven of what execution takes.
bool is_proven(const DemandAnswer& answer) {
  return answer.outcome == PlanOutcome::optimal && answer.formula_devices == 0;
}

std::string headline(const DemandAnswer& answer) {
  const Plan& plan = answer.answer->plans.front();
  const std::string devices = format_integer(plan.strategy.devices_spanned());
  const bool proven = is_proven(answer);
  switch (answer.demand.aim) {
    case DemandAim::devices:
      return fmt::format("{} devices meet {}{}: {}.", devices, demand_words(answer), proven ? ", and no fewer do" : "",
                         takes_words(answer, plan));
    case DemandAim::cost:
      return fmt::format("{} within {}: {} devices, {}.", proven ? "The cheapest" : "The cheapest that was found",
                         demand_words(answer), devices, takes_words(answer, plan));
    case DemandAim::time: break;
  }
  return fmt::format("{} within {}: {} devices, {}.", proven ? "The fastest" : "The fastest that was found",
                     demand_words(answer), devices, takes_words(answer, plan));
}

std::string proof_words(const DemandAnswer& answer) {
  const auto searches = std::ssize(answer.tries);
  std::string text = fmt::format("{} {} search{} over plans of 1 … {} devices",
                                 answer.outcome == PlanOutcome::limit ? "Stopped after"
                                 : is_proven(answer)                  ? "Proven by"
                                                                      : "Found by",
                                 searches, searches == 1 ? "" : "es", format_integer(answer.most_devices));
  if (answer.least_devices > 1) {
    text += fmt::format("; fewer than {} could not at the peak of their arithmetic, or hold the model's state",
                        format_integer(answer.least_devices));
  }
  text += ".";
  if (answer.formula_devices > 0) {
    text += fmt::format(
        " By the formula alone it would be {} devices; executed on the simulated network their plan misses it.",
        format_integer(answer.formula_devices));
  }
  return text;
}

std::string unmet_text(const DemandAnswer& answer) {
  const cost::Job& job = unwrap(answer.job);
  const std::string devices =
      fmt::format("{} x {} ({})", format_integer(answer.most_devices), job.cluster.device.name, job.cluster.name);
  std::string text =
      answer.formula_devices == 0
          ? fmt::format("{} cannot be had from {}.", demand_words(answer), devices)
          : fmt::format(
                "No plan on {} was found that meets {} when it is executed on the simulated network; by the "
                "formula alone {} devices would.",
                devices, demand_words(answer), format_integer(answer.formula_devices));
  text = wrap_after("", text) + "\n";
  if (!answer.nearest || answer.nearest->plans.empty()) return text + "No plan fits in their memory at all.\n";
  const Plan& plan = answer.nearest->plans.front();
  text += wrap_after("", fmt::format("{} on {} devices ({}): {}.",
                                     answer.demand.deadline_s > 0 ? "The fastest plan is" : "The cheapest plan is",
                                     format_integer(plan.strategy.devices_spanned()),
                                     plan::strategy_text(plan.strategy), takes_words(answer, plan))) +
          "\n";
  text += "What would do:\n";
  if (answer.larger) {
    text += fmt::format("  devices   {} ({}: {})\n", format_integer(answer.larger->strategy.devices_spanned()),
                        plan::strategy_text(answer.larger->strategy),
                        format_duration(answer.steps * answer.larger->prediction.iteration_s));
  }
  if (answer.demand.deadline_s > 0) {
    text += fmt::format("  deadline  {}\n", format_duration(total_s(answer, plan)));
    text += fmt::format("  tokens    {}\n",
                        format_count(answer.demand.tokens * answer.demand.deadline_s / total_s(answer, plan)));
  }
  if (answer.demand.budget > 0) text += fmt::format("  budget    {}\n", money(total_cost(answer, plan)));
  return text;
}

report::Json demand_json(const DemandAnswer& answer) {
  const Demand& demand = answer.demand;
  report::Json json = {{"aim", to_string(demand.aim)},
                       {"tokens", demand.tokens},
                       {"steps", answer.steps},
                       {"most_devices", answer.most_devices},
                       {"least_devices", answer.least_devices},
                       {"proven", is_proven(answer)},
                       {"searches", std::ssize(answer.tries)}};
  if (demand.deadline_s > 0) json["deadline_s"] = demand.deadline_s;
  if (demand.budget > 0) json["budget"] = demand.budget;
  if (demand.price_per_device_hour > 0) json["price"] = demand.price_per_device_hour;
  if (answer.formula_devices > 0) json["formula_devices"] = answer.formula_devices;
  json["tries"] = report::Json::array();
  for (const DemandTry& one : answer.tries) {
    report::Json row = {{"devices", one.devices}};
    if (one.used > 0) row.update({{"used", one.used}, {"iteration_s", one.step_s}});
    json["tries"].push_back(std::move(row));
  }
  const auto taken = [&](const Plan& plan) {
    report::Json row = {{"devices", plan.strategy.devices_spanned()},
                        {"strategy", plan::strategy_text(plan.strategy)},
                        {"iteration_s", plan.expected().iteration_s},
                        {"time_s", total_s(answer, plan)}};
    if (demand.price_per_device_hour > 0) row["cost"] = total_cost(answer, plan);
    return row;
  };
  if (answer.answer) json["met_by"] = taken(answer.answer->plans.front());
  if (answer.nearest && !answer.nearest->plans.empty()) json["nearest"] = taken(answer.nearest->plans.front());
  if (answer.larger) json["would_meet"] = taken(*answer.larger);
  return json;
}

html::HtmlSection demand_section(const DemandAnswer& answer) {
  html::Markup body;
  body.element("p", headline(answer), {{"class", "lead"}});
  body.element("p", proof_words(answer));
  html::HtmlTable table("Searches", {{"devices at most"}, {"used"}, {"per step"}, {"all tokens"}}, "demand-table");
  for (const DemandTry& one : answer.tries) {
    const bool met = one.used > 0;
    table.add({format_integer(one.devices), met ? format_integer(one.used) : "none meets it",
               met ? format_duration(one.step_s) : "", met ? format_duration(answer.steps * one.step_s) : ""});
  }
  body.add(table.markup());
  return {"demand", answer.demand.deadline_s > 0 ? "Deadline" : "Budget", std::move(body)};
}

// Reports of the plan itself, with days and money.
ReportOptions with_totals(const DemandAnswer& answer, ReportOptions options) {
  options.tokens = answer.demand.tokens;
  options.price_per_device_hour = answer.demand.price_per_device_hour;
  return options;
}

}  // namespace

std::string to_text(const DemandAnswer& answer, const ReportOptions& options) {
  if (!answer.answer) return answer.outcome == PlanOutcome::no_plan ? unmet_text(answer) : std::string();
  return wrap_after("", headline(answer)) + "\n" + wrap_after("", proof_words(answer)) + "\n\n" +
         to_text(*answer.answer, with_totals(answer, options));
}

std::string to_json(const DemandAnswer& answer, const ReportOptions& options) {
  if (answer.answer) {
    report::Json json = report::Json::parse(to_json(*answer.answer, with_totals(answer, options)));
    json["demand"] = demand_json(answer);
    return report::to_text(json);
  }
  const cost::Job& job = unwrap(answer.job);
  const cost::StateBytes bytes = cost::state_bytes(job);
  report::Json json = {{"schema", "nest.no-plan/1"},
                       {"state_bytes", report::json_number((bytes.weight + bytes.gradient + bytes.optimizer) *
                                                           static_cast<double>(job.parameters))},
                       {"device_memory_bytes", job.cluster.device.memory_bytes},
                       {"devices", answer.most_devices},
                       {"demand", demand_json(answer)},
                       {"text", unmet_text(answer)}};
  return report::to_text(json);
}

std::string to_html(const DemandAnswer& answer, const ReportOptions& options) {
  NEST_CHECK(answer.answer.has_value(), "there is a plan to draw");
  html::PlanPage page;
  page.why_not = answer.answer->why_not;
  page.next_best.assign(answer.answer->plans.begin() + 1, answer.answer->plans.end());
  page.first.push_back(demand_section(answer));
  return plan_page_text(answer.answer->plans.front(), unwrap(answer.answer->job), with_totals(answer, options),
                        std::move(page));
}

}  // namespace nest
