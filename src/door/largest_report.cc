// The largest that fits, for people and for programs.
#include <fmt/format.h>

#include "base/error.h"
#include "base/layout.h"
#include "base/units.h"
#include "door/job_data.h"
#include "door/plan_reports.h"
#include "nest/largest.h"
#include "report/json.h"

namespace nest {
namespace {

bool is_proven(const LargestAnswer& answer) { return answer.outcome == PlanOutcome::optimal; }

// "The longest sequences that fit have 245,760 tokens (multiples of 1,024 were looked at)."
std::string largest_words(const LargestAnswer& answer) {
  const std::string value = format_integer(answer.value);
  const char* that_fits = is_proven(answer) ? "that fits" : "found to fit";
  const Plan& plan = answer.answer->plans.front();
  std::string text;
  switch (answer.of) {
    case LargestOf::batch:
      text = fmt::format("The largest batch {} in one pass is {}: {} for each of {} replicas", that_fits, value,
                         format_integer(plan.strategy.micro_batch), format_integer(plan.strategy.dp));
      break;
    case LargestOf::seq:
      text = fmt::format("The longest sequence {} has {} tokens", that_fits, value);
      if (answer.step > 1) text += fmt::format(", of multiples of {}", format_integer(answer.step));
      break;
    case LargestOf::layers:
      text = fmt::format("The deepest such model {} has {} layers", that_fits, value);
      if (answer.step > 1) text += fmt::format(", of multiples of {}", format_integer(answer.step));
      break;
  }
  if (answer.value + answer.step > answer.most) text += ", and more is not looked at";
  return text + ".";
}

std::string proof_of_largest(const LargestAnswer& answer) {
  const auto searches = std::ssize(answer.tries);
  std::string text = fmt::format("{} {} search{}", is_proven(answer) ? "Proven by" : "Stopped after", searches,
                                 searches == 1 ? "" : "es");
  if (answer.of == LargestOf::seq)
    text += fmt::format(", each with a batch of {}", format_integer(unwrap(answer.job).run.global_batch));
  return text + (answer.of == LargestOf::batch ? "; larger batches accumulate gradients over several passes." : ".");
}

// "Not even 1,024 tokens fit."
std::string none_words(const LargestAnswer& answer) {
  switch (answer.of) {
    case LargestOf::batch: return "Not even one sequence fits.";
    case LargestOf::seq: return fmt::format("Not even sequences of {} tokens fit.", format_integer(answer.step));
    case LargestOf::layers: break;
  }
  return fmt::format("Not even {} layer{} fit{}.", format_integer(answer.step), answer.step == 1 ? "" : "s",
                     answer.step == 1 ? "s" : "");
}

report::Json largest_json(const LargestAnswer& answer) {
  report::Json json = {{"of", to_string(answer.of)},
                       {"step", answer.step},
                       {"most", answer.most},
                       {"proven", is_proven(answer) || answer.outcome == PlanOutcome::no_plan},
                       {"searches", std::ssize(answer.tries)}};
  if (answer.value > 0) json["value"] = answer.value;
  json["tries"] = report::Json::array();
  for (const LargestTry& one : answer.tries) {
    report::Json row = {{"value", one.value}, {"fits", one.fits}};
    if (one.replicas > 0) row["replicas"] = one.replicas;
    json["tries"].push_back(std::move(row));
  }
  return json;
}

html::HtmlSection largest_section(const LargestAnswer& answer) {
  html::Markup body;
  body.element("p", largest_words(answer), {{"class", "lead"}});
  body.element("p", proof_of_largest(answer));
  const bool batch = answer.of == LargestOf::batch;
  const char* name = answer.of == LargestOf::seq      ? "tokens of a sequence"
                     : answer.of == LargestOf::layers ? "layers"
                                                      : "batch";
  std::vector<html::HtmlTable::Column> columns = {{name}};
  if (batch) columns.insert(columns.end(), {{"replicas", true}, {"sequences of each", true}});
  columns.push_back({"fits", false});
  html::HtmlTable table("Searches", columns, "demand-table");
  for (const LargestTry& one : answer.tries) {
    std::vector<std::string> row = {format_integer(one.value)};
    if (batch) row.insert(row.end(), {format_integer(one.replicas), format_integer(one.value / one.replicas)});
    row.emplace_back(one.fits ? "yes" : "no plan does");
    table.add(row);
  }
  body.add(table.markup());
  return {"largest", "Largest", std::move(body)};
}

}  // namespace

std::string to_text(const LargestAnswer& answer, const ReportOptions& options) {
  if (answer.has_plan()) {
    return wrap_after("", largest_words(answer)) + "\n" + wrap_after("", proof_of_largest(answer)) + "\n\n" +
           to_text(*answer.answer, options);
  }
  if (answer.outcome != PlanOutcome::no_plan) return {};
  return none_words(answer) + "\n\n" + to_text(*answer.answer, options);
}

std::string to_json(const LargestAnswer& answer, const ReportOptions& options) {
  NEST_CHECK(answer.answer.has_value(), "there is an answer to write");
  report::Json json = report::Json::parse(to_json(*answer.answer, options));
  json["largest"] = largest_json(answer);
  return report::to_text(json);
}

std::string to_html(const LargestAnswer& answer, const ReportOptions& options) {
  NEST_CHECK(answer.answer.has_value(), "there is an answer to draw");
  if (!answer.has_plan()) return to_html(*answer.answer, options);
  html::PlanPage page;
  page.why_not = answer.answer->why_not;
  page.next_best.assign(answer.answer->plans.begin() + 1, answer.answer->plans.end());
  page.first.push_back(largest_section(answer));
  return plan_page_text(answer.answer->plans.front(), unwrap(answer.answer->job), options, std::move(page));
}

}  // namespace nest
