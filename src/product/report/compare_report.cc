#include "report/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/layout.h"
#include "base/text.h"
#include "base/units.h"
#include "nest/interval.h"
#include "plan/plan_json.h"
#include "plan/strategy_text.h"
#include "report/table.h"

namespace nest::report {
namespace {

constexpr double kEqual = 5e-4;  // what three digits do not show

std::string heading(const CompareReport& report) {
  const std::string text = fmt::format("{} on {} x {} ({}), {} x {} tokens per step, {}", report.about.model.title,
                                       format_integer(report.about.cluster.devices), report.about.cluster.device,
                                       report.about.cluster.name, format_integer(report.about.run.global_batch),
                                       format_integer(report.about.run.sequence), report.about.run.stack);
  return wrap_after("", text) + "\n";
}

std::vector<std::string> row_of(const CompareReport& report, const ComparedPlanner& planner) {
  std::vector<std::string> cells{planner.name};
  if (planner.plan) {
    const Prediction& prediction = planner.plan->prediction;
    cells.push_back(format_duration(prediction.iteration_s));
    if (report.simulated) cells.push_back(planner.simulated_s ? format_duration(*planner.simulated_s) : "-");
    cells.push_back(fmt::format("{:.3f}", ratio(report, planner).value_or(0)));
    cells.push_back(format_count(prediction.samples_per_s * static_cast<double>(report.about.run.sequence)));
    cells.push_back(format_integer(planner.plan->strategy.devices_used()));
    cells.push_back(format_bytes(prediction.peak_memory_bytes));
  } else {
    cells.insert(cells.end(), report.simulated ? 6 : 5, "-");
  }
  cells.push_back(format_duration(planner.wall_s));
  return cells;
}

std::string notes(const CompareReport& report) {
  std::string text;
  for (const ComparedPlanner& planner : report.planners) {
    for (const std::string& note : {planner.note, planner.simulation_note}) {
      if (!note.empty()) text += wrap_after(fmt::format("  {}: ", planner.name), note) + "\n";
    }
  }
  return text;
}

}  // namespace

bool CompareReport::is_executed() const {
  return simulated && std::all_of(planners.begin(), planners.end(),
                                  [](const ComparedPlanner& planner) { return !planner.plan || planner.simulated_s; });
}

double CompareReport::seconds(const ComparedPlanner& planner) const {
  return is_executed() ? *planner.simulated_s : planner.plan->prediction.iteration_s;
}

const ComparedPlanner* CompareReport::baseline() const {
  const ComparedPlanner* best = nullptr;
  for (const ComparedPlanner& planner : planners) {
    if (!planner.plan) continue;
    if (planner.name == "nest") return &planner;
    if (best == nullptr || seconds(planner) < seconds(*best)) best = &planner;
  }
  return best;
}

const ComparedPlanner* CompareReport::fastest() const {
  const ComparedPlanner* best = baseline();
  for (const ComparedPlanner& planner : planners) {
    if (planner.plan && seconds(planner) < seconds(*best)) best = &planner;
  }
  return best;
}

bool CompareReport::is_open() const {
  bool stopped = false;
  for (const ComparedPlanner& planner : planners) {
    if (planner.plan || planner.none_fits) return false;
    stopped = stopped || planner.stopped;
  }
  return stopped;
}

std::optional<double> ratio(const CompareReport& report, const ComparedPlanner& planner) {
  const ComparedPlanner* base = report.baseline();
  if (base == nullptr || !planner.plan) return std::nullopt;
  return report.seconds(planner) / report.seconds(*base);
}

std::string compare_headline(const CompareReport& report) {
  const ComparedPlanner* base = report.baseline();
  if (report.is_open()) return "No planner finds a plan that fits before its time is over.";
  if (base == nullptr) return "No planner finds a plan that fits.";
  std::vector<std::string> equal;
  const ComparedPlanner *next = nullptr, *last = nullptr;
  for (const ComparedPlanner& planner : report.planners) {
    if (!planner.plan || &planner == base) continue;
    const double time = report.seconds(planner);
    if (std::abs(*ratio(report, planner) - 1) < kEqual) {
      equal.push_back(planner.name);
      continue;
    }
    if (next == nullptr || time < report.seconds(*next)) next = &planner;
    if (last == nullptr || time > report.seconds(*last)) last = &planner;
  }
  std::string text = fmt::format("{} per step{} with {}", format_duration(report.seconds(*base)),
                                 report.is_executed() ? ", executed," : "", base->name);
  if (!equal.empty()) text += fmt::format("; {} {} as fast", join_words(equal), equal.size() == 1 ? "is" : "are");
  if (next != nullptr) {
    const double sure = probability_faster(base->plan->prediction, next->plan->prediction, *ratio(report, *next));
    text += fmt::format("; {} takes {:.3f} times as long ({} sure)", next->name, *ratio(report, *next),
                        sure_text(*ratio(report, *next) < 1 ? 1 - sure : sure));
  }
  if (last != next) text += fmt::format(", {} {:.3f} times", last->name, *ratio(report, *last));
  if (equal.empty() && next == nullptr) text += "; nobody else has a plan";
  return text + ".";
}

std::string memory_measures(const Plan& plan) {
  std::set<Recomputation> recomputes;
  bool shards[4] = {};
  for (const StagePlan& stage : plan.stages) {
    recomputes.insert(stage.recompute);
    shards[stage.zero] = true;
  }
  std::string text = "recompute ";
  const char* between = "";
  for (const Recomputation& recompute : recomputes) {
    text += fmt::format("{}{}", between, to_string(recompute));
    between = "/";
  }
  text += ", ZeRO ";
  between = "";
  for (int zero = 0; zero < 4; ++zero) {
    if (!shards[zero]) continue;
    text += fmt::format("{}{}", between, zero);
    between = "/";
  }
  return text;
}

std::string compare_text(const CompareReport& report, const Style& style) {
  const ComparedPlanner* base = report.baseline();
  std::string text = heading(report) + style.paint(Ink::strong, wrap_after("", compare_headline(report))) + "\n\n";
  std::vector<Column> columns = {{"planner", Align::left}, {report.simulated ? "predicted" : "per step"}};
  if (report.simulated) columns.push_back({"simulated"});
  columns.push_back({base != nullptr ? "/ " + base->name : "ratio"});
  for (const char* title : {"tokens/s", "devices", "memory", "search"}) columns.push_back({title});
  Table table(std::move(columns));
  for (const ComparedPlanner& planner : report.planners) table.add(row_of(report, planner));
  text += table.render(style) + "\n";
  Table strategies({{"", Align::left}, {"", Align::left, true}});
  for (const ComparedPlanner& planner : report.planners) {
    if (!planner.plan) continue;
    strategies.add({planner.name, plan::strategy_text(planner.plan->strategy) + ", " + memory_measures(*planner.plan)});
  }
  if (!strategies.empty()) text += strategies.render(style) + "\n";
  if (const std::string said = notes(report); !said.empty()) text += said + "\n";
  return text +
         "One cost model estimates all; every plan was checked independently. Each planner\n"
         "ran in one thread.\n";
}

Json compare_json(const CompareReport& report) {
  const Json frame = plan::plan_to_json(report.about);
  Json json = {{"schema", "nest.compare/1"}};
  for (const char* key : {"model", "cluster", "stack", "profile", "run"}) json[key] = frame.at(key);
  json["device_memory_bytes"] = report.about.device_memory_bytes;
  json["judge"] = report.is_executed() ? "simulation" : "formula";
  json["planners"] = Json::array();
  for (const ComparedPlanner& planner : report.planners) {
    Json row = {{"planner", planner.name}, {"idea", planner.idea}, {"source", planner.source}};
    row["strategy"] = nullptr;
    row["stages"] = nullptr;
    row["prediction"] = nullptr;
    row["plan"] = nullptr;
    Json search = {{"wall_s", planner.wall_s}, {"optimal", false}, {"planner", planner.name}};
    if (planner.plan) {
      Json plan = plan::plan_to_json(*planner.plan);
      for (const char* key : {"strategy", "stages", "prediction"}) row[key] = plan.at(key);
      if (plan.contains("search")) search = plan.at("search");
      row["plan"] = std::move(plan);
      const double times = ratio(report, planner).value_or(0);
      row["times_baseline"] = times;
      const ComparedPlanner* base = report.baseline();
      if (base != &planner && times > 0) {
        row["probability_slower"] = probability_faster(base->plan->prediction, planner.plan->prediction, times);
      }
    }
    search["considered"] = json_number(planner.considered);
    row["search"] = std::move(search);
    if (planner.simulated_s) row["simulated"] = {{"iteration_s", *planner.simulated_s}};
    if (!planner.note.empty()) row["note"] = planner.note;
    if (!planner.simulation_note.empty()) row["simulation_note"] = planner.simulation_note;
    json["planners"].push_back(std::move(row));
  }
  return json;
}

}  // namespace nest::report
