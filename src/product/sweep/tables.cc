#include "sweep/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/layout.h"
#include "base/text.h"
#include "base/units.h"
#include "report/json.h"
#include "report/table.h"
#include "sweep/view.h"

namespace nest::sweep {
namespace {

using Json = report::Json;

constexpr std::size_t kShownRows = 20;
constexpr std::size_t kShownReasons = 5;
constexpr std::size_t kNumbersWidth = 38;  // of the columns that every table has, and
constexpr std::size_t kPlanWidth = 16;     // what a plan needs at least to say something

struct NamedReal {
  const char* name;
  std::optional<double> value;
  bool whole = false;
};

// The numbers of a result in the order in which every table has them.
std::vector<NamedReal> numbers_of(const SweepResult& r) {
  std::vector<NamedReal> list = {{"step_s", r.step_s},
                                 {"low_s", r.low_s},
                                 {"high_s", r.high_s},
                                 {"lower_bound_s", r.lower_bound_s},
                                 {"tokens_per_s", r.tokens_per_s},
                                 {"tokens_per_s_per_device", r.tokens_per_s_per_device},
                                 {"mfu", r.mfu},
                                 {"devices_used", static_cast<double>(r.devices_used), true},
                                 {"memory_bytes", static_cast<double>(r.memory_bytes), true},
                                 {"device_hours_per_gtoken", r.device_hours_per_gtoken},
                                 {"cost_per_gtoken", r.cost_per_gtoken},
                                 {"days", r.days},
                                 {"device_hours", r.device_hours},
                                 {"cost", r.cost}};
  if (!r.has_plan) {
    for (NamedReal& each : list) each.value.reset();
  }
  return list;
}

Json axis_json(const SweepValue& value) {
  if (!value.is_plain) return value.text;
  if (!value.number) return value.text == "true";
  return report::json_number(*value.number);
}

Json result_json(const Study& study, const SweepResult& result) {
  Json json = {{"point", result.point}};
  const std::vector<std::size_t> choice = study.choice(result.point);
  for (std::size_t a = 0; a < choice.size(); ++a) {
    json[study.axes[a].name] = axis_json(study.axes[a].values[choice[a]]);
  }
  json["outcome"] = to_string(result.outcome);
  if (!result.reason.empty()) json["reason"] = result.reason;
  if (!result.strategy.empty()) json["strategy"] = result.strategy;
  for (const NamedReal& each : numbers_of(result)) {
    if (!each.value) continue;
    if (each.whole) {
      json[each.name] = static_cast<std::int64_t>(*each.value);
    } else {
      json[each.name] = *each.value;
    }
  }
  return json;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string cost_text(double cost) {
  return cost >= 1000 ? format_integer(std::llround(cost)) : fmt::format("{:.3g}", cost);
}

std::size_t axis_width(const SweepAxis& axis, const std::string& title) {
  std::size_t width = display_width(title);
  for (const SweepValue& value : axis.values) width = std::max(width, display_width(value.text));
  return width + 2;
}

std::string front_text(const SweepResults& results, const Style& style) {
  const Study& study = results.study;
  const bool money = has_prices(results);
  std::vector<report::Column> columns;
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    if (study.axes[a].values.size() < 2 || follows(study, a)) continue;
    axes.push_back(a);
    const bool number = study.axes[a].values.front().number.has_value();
    columns.push_back({short_name(study.axes[a].name), number ? report::Align::right : report::Align::left});
  }
  // What does not fit on a line gives way: plans first, then the names of axes.
  std::size_t width = kNumbersWidth;
  for (std::size_t k = 0; k < axes.size(); ++k) width += axis_width(study.axes[axes[k]], columns[k].title);
  const bool plans = width + kPlanWidth <= kLineWidth;
  for (report::Column& column : columns) column.flexible = width > kLineWidth;
  for (const char* title : {"step", "tokens/s", "MFU %"}) columns.push_back({title});
  columns.push_back({money ? "cost" : "device-h"});
  if (plans) columns.push_back({"plan", report::Align::left, true, Ink::faint});
  report::Table table(columns);
  std::size_t rows = 0, all = 0;
  for (const Task& task : tasks_of(results)) {
    std::vector<const SweepResult*> front = front_of(task, money);
    std::reverse(front.begin(), front.end());
    all += front.size();
    for (const SweepResult* r : front) {
      if (rows == kShownRows) break;
      ++rows;
      std::vector<std::string> cells;
      const std::vector<std::size_t> choice = study.choice(r->point);
      cells.reserve(axes.size() + 5);
      for (const std::size_t a : axes) cells.push_back(study.axes[a].values[choice[a]].text);
      cells.insert(cells.end(), {format_duration(r->step_s), format_count(r->tokens_per_s),
                                 fmt::format("{:.1f}", 100 * r->mfu), cost_text(cost_of(*r, money))});
      if (plans) cells.push_back(r->strategy);
      table.add(std::move(cells));
    }
  }
  if (rows == 0) return {};
  std::string text = fmt::format("Nobody who trains the same is faster for less ({} a billion tokens):\n{}",
                                 money ? "cost: of" : "hours: for", table.render(style));
  if (rows < all) text += fmt::format("  and {} more\n", format_integer(static_cast<std::int64_t>(all - rows)));
  return text + "\n";
}

std::string reasons_text(const SweepResults& results) {
  std::map<std::string, std::int64_t> counts;
  std::vector<std::string> order;
  for (const SweepResult& result : results.points) {
    if (result.outcome != SweepOutcome::refused) continue;
    if (++counts[result.reason] == 1) order.push_back(result.reason);
  }
  std::string text;
  for (std::size_t k = 0; k < std::min(order.size(), kShownReasons); ++k) {
    text += wrap_after("  ", fmt::format("{} x {}", format_integer(counts[order[k]]), clip(order[k], 400))) + "\n";
  }
  if (text.empty()) return text;
  const std::size_t more = order.size() - std::min(order.size(), kShownReasons);
  return "Refused:\n" + text + (more > 0 ? fmt::format("  and {} other reasons\n", more) : "") + "\n";
}

}  // namespace

std::string outcomes_text(const SweepResults& results) {
  std::int64_t plans = 0, limits = 0, misfits = 0, refused = 0;
  for (const SweepResult& result : results.points) {
    plans += result.outcome == SweepOutcome::plan ? 1 : 0;
    limits += result.outcome == SweepOutcome::limit ? 1 : 0;
    misfits += result.outcome == SweepOutcome::no_plan ? 1 : 0;
    refused += result.outcome == SweepOutcome::refused ? 1 : 0;
  }
  std::vector<std::string> parts = {fmt::format("{} with a proven plan", format_integer(plans))};
  if (limits > 0) parts.push_back(fmt::format("{} ended by the time limit", format_integer(limits)));
  if (misfits > 0) parts.push_back(fmt::format("{} where nothing fits", format_integer(misfits)));
  if (refused > 0) parts.push_back(fmt::format("{} that cannot be asked", format_integer(refused)));
  return join_words(parts);
}

std::string results_text(const SweepResults& results, const Style& style) {
  const auto there = static_cast<std::int64_t>(results.points.size());
  const auto all = static_cast<std::int64_t>(results.study.points.size());
  const std::string count = there == all ? format_integer(all) : format_integer(there) + " of " + format_integer(all);
  std::string text = style.paint(Ink::strong, fmt::format("{}: {} points", results.study.name, count)) + "\n";
  text += wrap_after("", outcomes_text(results) + ".") + "\n\n";
  return text + front_text(results, style) + reasons_text(results);
}

std::string results_json(const SweepResults& results) {
  const Study& study = results.study;
  Json axes = Json::array(), fixed = Json::object(), points = Json::array();
  for (const SweepAxis& axis : study.axes) {
    Json values = Json::array();
    for (const SweepValue& value : axis.values) values.push_back(axis_json(value));
    axes.push_back({{"name", axis.name}, {"values", std::move(values)}});
  }
  for (const SweepSetting& setting : study.fixed) fixed[setting.name] = axis_json(setting.value);
  for (const SweepResult& result : results.points) points.push_back(result_json(study, result));
  return report::to_text({{"schema", "nest.sweep/1"},
                          {"study", study.name},
                          {"description", study.description},
                          {"database", results.database},
                          {"axes", std::move(axes)},
                          {"fixed", std::move(fixed)},
                          {"points_of_study", study.points.size()},
                          {"front", pareto_front(results)},
                          {"points", std::move(points)}});
}

std::string results_csv(const SweepResults& results) {
  const Study& study = results.study;
  std::string text = "point";
  for (const SweepAxis& axis : study.axes) text += "," + csv_cell(axis.name);
  text += ",outcome,reason,strategy";
  for (const NamedReal& each : numbers_of({})) text += fmt::format(",{}", each.name);
  text += "\n";
  for (const SweepResult& result : results.points) {
    text += std::to_string(result.point);
    const std::vector<std::size_t> choice = study.choice(result.point);
    for (std::size_t a = 0; a < choice.size(); ++a) text += "," + csv_cell(study.axes[a].values[choice[a]].text);
    text += fmt::format(",{},{},{}", to_string(result.outcome), csv_cell(result.reason), csv_cell(result.strategy));
    for (const NamedReal& each : numbers_of(result)) {
      text += ',';
      if (each.value) text += each.whole ? fmt::format("{:.0f}", *each.value) : fmt::format("{}", *each.value);
    }
    text += "\n";
  }
  return text;
}

std::string result_line(const SweepResults& results, const SweepResult& result, std::string_view plan) {
  std::string line = result_json(results.study, result).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (!plan.empty()) {  // is one line of JSON itself
    line.back() = ',';
    line += fmt::format("\"plan\":{}}}", plan);
  }
  return line + "\n";
}

}  // namespace nest::sweep
