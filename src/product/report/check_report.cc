#include "report/check_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/layout.h"
#include "base/units.h"
#include "plan/plan_json.h"
#include "plan/strategy_text.h"
#include "report/plan_report.h"
#include "report/table.h"

namespace nest::report {
namespace {

// Whether memory and levels can be worked out: no violation of the plan's shape.
bool has_shape(const std::vector<check::Violation>& violations) {
  return std::all_of(violations.begin(), violations.end(), [](const check::Violation& violation) {
    return violation.code >= check::ViolationCode::memory || violation.code == check::ViolationCode::device_list;
  });
}

std::string level_table(const CheckReport& report, const Style& style) {
  Table table({{"who exchanges", Align::left, true}, {"ranks", Align::right}, {"crosses", Align::left}});
  const auto& boundaries = report.levels.boundaries;
  for (std::size_t i = 0; i < boundaries.size();) {
    // Neighbouring boundaries that cross the same are one line.
    std::size_t end = i + 1;
    while (end < boundaries.size() && boundaries[end].crossing == boundaries[i].crossing &&
           boundaries[end].to == boundaries[end].from + 1) {
      ++end;
    }
    const std::string stages =
        end - i == 1 ? fmt::format("stage {} to stage {}", boundaries[i].from, boundaries[i].to)
                     : fmt::format("stages {} … {}, each to the next", boundaries[i].from, boundaries[end - 1].to);
    table.add({stages, "2", check::crossing_name(report.cluster, boundaries[i].crossing)});
    i = end;
  }
  for (const check::GroupCrossing& group : report.levels.groups) {
    table.add(
        {group.group + " parallel", format_integer(group.size), check::crossing_name(report.cluster, group.crossing)});
  }
  return table.empty() ? std::string() : table.render(style) + "\n";
}

std::string memory_table(const CheckReport& report, const Style& style) {
  Table table({{"stage", Align::right},
               {"layers", Align::left, true},
               {"needs at least", Align::right},
               {"claimed", Align::right},
               {"", Align::left, false, Ink::accent}});
  const auto memory = static_cast<double>(report.cluster.device.memory_bytes);
  const auto& floors = report.memory_floor_bytes;
  const auto same = [&](std::size_t a, std::size_t b) {
    return floors[a] == floors[b] && report.plan.stages[a].memory.total == report.plan.stages[b].memory.total;
  };
  for (std::size_t s = 0; s < floors.size();) {
    std::size_t end = s + 1;
    while (end < floors.size() && same(s, end)) ++end;
    const StagePlan& stage = report.plan.stages[s];
    table.add({end - s == 1 ? std::to_string(s) : fmt::format("{}-{}", s, end - 1),
               layers_label(report.model, stage, report.plan.stages[end - 1]), format_bytes(std::llround(floors[s])),
               stage.memory.total > 0 ? format_bytes(stage.memory.total) : std::string("-"),
               bar(std::min(1.0, floors[s] / memory), 16)});
    s = end;
  }
  return table.render(style);
}

Json crossing_json(const cluster::Cluster& cluster, const check::Crossing& crossing) {
  if (cluster.torus) return {{"hops", {crossing.least, crossing.most}}};
  return {{"level", {crossing.least, crossing.most}},
          {"name", cluster.levels[static_cast<std::size_t>(crossing.most)].name}};
}

Json violations_json(const std::vector<check::Violation>& violations) {
  Json list = Json::array();
  for (const check::Violation& violation : violations) {
    list.push_back({{"code", to_string(violation.code)}, {"text", violation.text}});
  }
  return list;
}

// Claims of this plan that no rule is about: they follow from the cost model, from measurements or from the search alone.
std::vector<std::string> claims_not_judged(const Plan& plan) {
  std::vector<std::string> keys;
  const auto add = [&keys](bool claimed, const char* key) {
    if (claimed) keys.emplace_back(key);
  };
  const auto any = [&plan](const auto& test) { return std::any_of(plan.stages.begin(), plan.stages.end(), test); };
  add(plan.model.parameters > 0 && (plan.run.mtp_layers > 0 || !plan.run.lora.empty()), "model.parameters");
  add(any([](const StagePlan& stage) { return stage.memory.host > 0; }), "stages[].memory_bytes.host");
  add(plan.prediction.spread > 0, "prediction.spread");
  add(plan.executed.has_value(), "executed.breakdown_s");
  if (plan.search) {
    for (const char* key : {"wall_s", "optimal", "candidates", "opened", "planner"}) {
      keys.push_back(fmt::format("search.{}", key));
    }
    for (const char* key : {"tie", "fastest_s"}) {
      if (plan.search->tie > 0) keys.push_back(fmt::format("search.{}", key));
    }
    add(!plan.search->fastest.empty(), "search.fastest");
    add(!plan.search->simpler.empty(), "search.simpler");
    add(!plan.search->set.empty(), "search.set");
    add(plan.search->max_devices > 0, "search.max_devices");
    for (const char* key : {"target", "target_version"}) {
      if (!plan.search->target.empty()) keys.push_back(fmt::format("search.{}", key));
    }
    if (plan.search->execution) {
      for (const char* key : {"simulated_s", "executed", "bounded", "complete", "runs", "certain"}) {
        keys.push_back(fmt::format("search.execution.{}", key));
      }
      for (const char* key : {"formula", "formula_s", "formula_simulated_s"}) {
        if (!plan.search->execution->formula.empty()) keys.push_back(fmt::format("search.execution.{}", key));
      }
    }
  }
  add(any([](const StagePlan& stage) { return stage.memory.allocated > 0; }), "evaluation.stages[].allocated_bytes");
  add(any([](const StagePlan& stage) { return stage.memory.out_of_memory > 0; }), "evaluation.stages[].out_of_memory");
  add(any([](const StagePlan& stage) { return !stage.memory.moment.empty(); }), "evaluation.stages[].moment");
  add(!plan.assumptions.empty(), "evaluation.assumptions");
  add(!plan.measured.empty(), "evaluation.measured");
  return keys;
}

}  // namespace

CheckReport make_check_report(std::string title, const Plan& plan, const model::Model& model,
                              const cluster::Cluster& cluster, const check::StateFloor& state,
                              const check::ListedDevices& listed) {
  CheckReport report;
  report.title = std::move(title);
  report.plan = plan;
  report.cluster = cluster;
  report.model = model;
  report.violations = check::check_plan(plan, model, cluster, state, listed);
  report.not_judged = claims_not_judged(plan);
  if (has_shape(report.violations)) {
    report.levels = check::levels_crossed(plan.strategy, cluster);
    report.memory_floor_bytes = check::memory_floors(plan, model, state);
  }
  return report;
}

std::string check_text(const CheckReport& report, const Style& style) {
  const Plan& plan = report.plan;
  const std::size_t broken = report.violations.size();
  const std::string verdict = broken == 0   ? fmt::format("sound: all {} rules hold", check::kViolationCodes)
                              : broken == 1 ? std::string("not sound: 1 violation")
                                            : fmt::format("not sound: {} violations", broken);
  std::string text = fmt::format("{} on {} x {} ({})\n", report.title, format_integer(plan.strategy.devices_used()),
                                 plan.cluster.device, plan.cluster.name);
  text += style.paint(Ink::strong, verdict) + "\n";
  std::size_t widest = 0;
  for (const check::Violation& violation : report.violations) {
    widest = std::max(widest, std::string(to_string(violation.code)).size());
  }
  for (const check::Violation& violation : report.violations) {
    text += wrap_after("  " + pad_right(to_string(violation.code), widest) + "  ", violation.text) + "\n";
  }
  text += fmt::format("\n  {}\n", plan::strategy_text(plan));
  if (report.memory_floor_bytes.empty()) return text;
  text += "\n" + level_table(report, style) + memory_table(report, style);
  text += fmt::format("  of {}: weights, gradients, optimizer and kept tensors, nothing else\n",
                      format_bytes(report.cluster.device.memory_bytes));
  if (!report.not_judged.empty()) {
    text += "\n" + wrap_after("Not judged: ", fmt::format("{}", fmt::join(report.not_judged, ", "))) + "\n";
  }
  return text;
}

Json check_json(const CheckReport& report) {
  Json json = {{"schema", "nest.check/1"},
               {"sound", report.violations.empty()},
               {"violations", violations_json(report.violations)},
               {"not_judged", report.not_judged}};
  Json boundaries = Json::array();
  for (const check::BoundaryCrossing& boundary : report.levels.boundaries) {
    Json entry = {{"from", boundary.from}, {"to", boundary.to}};
    entry.update(crossing_json(report.cluster, boundary.crossing));
    boundaries.push_back(std::move(entry));
  }
  Json groups = Json::array();
  for (const check::GroupCrossing& group : report.levels.groups) {
    Json entry = {{"group", group.group}, {"ranks", group.size}};
    entry.update(crossing_json(report.cluster, group.crossing));
    groups.push_back(std::move(entry));
  }
  json["levels_crossed"] = {{"boundaries", std::move(boundaries)}, {"groups", std::move(groups)}};
  Json stages = Json::array();
  for (const double bytes : report.memory_floor_bytes) {
    stages.push_back({{"memory_floor_bytes", json_number(std::ceil(bytes))}});
  }
  json["stages"] = std::move(stages);
  json["device_memory_bytes"] = report.cluster.device.memory_bytes;
  return json;
}

std::string reproducer_text(const Plan& plan, const std::vector<check::Violation>& violations) {
  Json json = plan::plan_to_json(plan);
  json["evaluation"]["violations"] = violations_json(violations);
  return to_text(json);
}

}  // namespace nest::report
