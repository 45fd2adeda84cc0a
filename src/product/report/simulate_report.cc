#include "report/simulate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/layout.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/strategy_text.h"
#include "report/table.h"

namespace nest::report {
namespace {

constexpr std::size_t kLinksShown = 5, kSlowedShown = 5;

// Without a sign where it rounds to nothing.
std::string signed_percent(double fraction) {
  return std::abs(fraction) < 5e-5 ? "0.00 %" : fmt::format("{:+.2f} %", 100 * fraction);
}

std::string heading(const SimulationReport& report, const Style& style) {
  const simulate::SimulationSummary& summary = report.summary;
  const Plan& plan = report.plan;
  return fmt::format("{} on {} x {} ({})\n", report.title, format_integer(plan.strategy.devices_used()),
                     plan.cluster.device, plan.cluster.name) +
         style.paint(Ink::strong, fmt::format("{} simulated", format_duration(summary.iteration_s))) +
         fmt::format(", {} predicted: {}\n", format_duration(summary.predicted_s),
                     signed_percent(summary.difference()));
}

std::string phase_table(const simulate::SimulationSummary& summary, const Style& style) {
  Table table({{"phase", Align::left},
               {"simulated s", Align::right},
               {"predicted s", Align::right},
               {"of the step", Align::right},
               {"apart", Align::right}});
  for (const BreakdownPart& phase : kBreakdownParts) {
    const double simulated = summary.breakdown_s.*phase.seconds;
    const double predicted = summary.predicted_breakdown_s.*phase.seconds;
    if (std::max(simulated, predicted) < 5e-7 * summary.predicted_s) continue;
    table.add({phase.name, fmt::format("{:.4f}", simulated), fmt::format("{:.4f}", predicted),
               fmt::format("{:.1f} %", 100 * simulated / summary.iteration_s),
               signed_percent((simulated - predicted) / summary.predicted_s)});
  }
  table.add({"total", fmt::format("{:.4f}", summary.iteration_s), fmt::format("{:.4f}", summary.predicted_s), "100.0 %",
             signed_percent(summary.difference())});
  return table.render(style);
}

bool alike(const simulate::StageUse& a, const simulate::StageUse& b, double whole) {
  const auto close = [&](double x, double y) { return std::abs(x - y) <= 5e-4 * whole; };
  return close(a.compute_s, b.compute_s) && close(a.message_s, b.message_s) && close(a.shard_s, b.shard_s) &&
         close(a.idle_s, b.idle_s);
}

std::string stage_table(const simulate::SimulationSummary& summary, const Style& style) {
  Table table({{"stage", Align::right},
               {"computes", Align::right},
               {"waits for messages", Align::right},
               {"for state", Align::right},
               {"idle", Align::right},
               {"", Align::left, true, Ink::accent}});
  const auto percent = [&](double seconds) { return fmt::format("{:.1f} %", 100 * seconds / summary.iteration_s); };
  for (std::size_t s = 0; s < summary.stages.size();) {
    std::size_t end = s + 1;
    while (end < summary.stages.size() && alike(summary.stages[s], summary.stages[end], summary.iteration_s)) ++end;
    const simulate::StageUse& use = summary.stages[s];
    table.add({end - s == 1 ? std::to_string(s) : fmt::format("{}-{}", s, end - 1), percent(use.compute_s),
               percent(use.message_s), percent(use.shard_s), percent(use.idle_s),
               bar(std::min(1.0, use.compute_s / summary.iteration_s), 20)});
    s = end;
  }
  return table.render(style);
}

std::string link_table(const simulate::SimulationSummary& summary, const Style& style) {
  Table table({{"busiest links", Align::left, true},
               {"alike", Align::right},
               {"GB a step", Align::right},
               {"busy", Align::right},
               {"", Align::left, false, Ink::accent}});
  for (std::size_t i = 0; i < std::min(kLinksShown, summary.links.size()); ++i) {
    const simulate::LinkUse& use = summary.links[i];
    table.add({use.name, format_integer(use.alike), fmt::format("{:.2f}", use.bytes / 1e9), format_percent(use.busy),
               bar(std::min(1.0, use.busy), 16)});
  }
  return table.empty() ? std::string() : table.render(style) + "\n";
}

// Which transfers are slowed by others, where, by whom and when.
std::string contention_text(const simulate::SimulationSummary& summary) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kSlowedShown, summary.slowed.size()); ++i) {
    text += wrap_after("contended: ", simulate::to_text(summary.slowed[i], summary.iteration_s)) + "\n";
  }
  return text.empty() ? text : text + "\n";
}

Json contention_json(const simulate::SimulationSummary& summary) {
  Json rows = Json::array();
  for (const simulate::SlowedTransfers& slowed : summary.slowed) {
    rows.push_back({{"what", slowed.what},
                    {"transfers", slowed.count},
                    {"taken_s", slowed.taken_s},
                    {"alone_s", slowed.alone_s},
                    {"link", slowed.link},
                    {"alike", slowed.alike},
                    {"beside", slowed.beside},
                    {"begin_s", slowed.begin_s},
                    {"end_s", slowed.end_s}});
  }
  return rows;
}

std::string symmetry_text(const SimulationReport& report) {
  const std::int64_t replicas = report.plan.strategy.dp;
  std::string text = fmt::format("{} activities in {} {}, executed by {}",
                                 format_integer(static_cast<std::int64_t>(report.activities)), report.steps,
                                 report.steps == 1 ? "step" : "steps", report.summary.engine);
  if (report.replica_classes < replicas) {
    text += fmt::format("; {} replicas behave in {} {}, each simulated once, which is exact", format_integer(replicas),
                        format_integer(report.replica_classes), report.replica_classes == 1 ? "way" : "ways");
  } else if (replicas > 1) {
    text += fmt::format("; all {} replicas simulated", format_integer(replicas));
  }
  if (report.flows > 0) {
    text += fmt::format("; {} links and {} flows stand for {} and {}", format_integer(report.link_classes),
                        format_integer(report.routes), format_integer(report.links), format_integer(report.flows));
  }
  return text;
}

Json noisy_json(const SimulationReport& report) {
  const simulate::NoisySteps& noisy = report.noisy;
  if (noisy.iteration_s.empty()) return {};
  return {{"percent", 100 * report.noise.deviation}, {"seed", report.noise.seed}, {"mean_s", noisy.mean_s()},
          {"deviation_s", noisy.deviation_s()},      {"low_s", noisy.lowest_s()}, {"high_s", noisy.highest_s()},
          {"iteration_s", noisy.iteration_s}};
}

Json breakdown_json(const Prediction::Breakdown& breakdown) {
  Json json;
  for (const BreakdownPart& phase : kBreakdownParts) json[phase.key] = breakdown.*phase.seconds;
  return json;
}

}  // namespace

SimulationReport make_simulation_report(std::string title, Plan plan, const simulate::LoweredPlan& lowered,
                                        simulate::SimulationSummary summary) {
  SimulationReport report;
  report.title = std::move(title);
  report.plan = std::move(plan);
  report.summary = std::move(summary);
  report.replica_classes = static_cast<std::int64_t>(lowered.symmetry().replica_classes());
  report.links = lowered.symmetry().physical_links;
  report.link_classes = static_cast<std::int64_t>(lowered.symmetry().links.size());
  report.flows = lowered.symmetry().physical_flows;
  report.routes = static_cast<std::int64_t>(lowered.symmetry().routes.size());
  report.activities = lowered.labels.size();
  report.steps = lowered.steps;
  report.as_predicted = lowered.as_predicted();
  return report;
}

std::string noisy_text(const SimulationReport& report) {
  const simulate::NoisySteps& noisy = report.noisy;
  if (noisy.iteration_s.empty()) return {};
  return fmt::format("{} ± {} in {} {} with {:g} % noise on every pass and every replica for itself; {} … {}",
                     format_duration(noisy.mean_s()), format_duration(noisy.deviation_s()), noisy.iteration_s.size(),
                     noisy.iteration_s.size() == 1 ? "run" : "runs", 100 * report.noise.deviation,
                     format_duration(noisy.lowest_s()), format_duration(noisy.highest_s()));
}

std::string simulation_text(const SimulationReport& report, const Style& style) {
  const simulate::SimulationSummary& summary = report.summary;
  std::string text = heading(report, style);
  if (!report.noisy.iteration_s.empty()) text += wrap_after("noise: ", noisy_text(report)) + "\n";
  if (!summary.cause.empty()) text += wrap_after("cause: ", summary.cause) + "\n";
  text += fmt::format("\n  {}\n\n", plan::strategy_text(report.plan));
  text += phase_table(summary, style) + "\n" + stage_table(summary, style) + "\n" + link_table(summary, style);
  text += contention_text(summary);
  text += wrap_after("", symmetry_text(report)) + "\n";
  if (!report.as_predicted.empty()) {
    text += wrap_after("Taken as predicted: ", fmt::format("{}", fmt::join(report.as_predicted, "; "))) + "\n";
  }
  return text;
}

Json simulation_json(const SimulationReport& report) {
  const simulate::SimulationSummary& summary = report.summary;
  Json stages = Json::array();
  for (const simulate::StageUse& use : summary.stages) {
    stages.push_back({{"compute_s", use.compute_s},
                      {"message_s", use.message_s},
                      {"shard_s", use.shard_s},
                      {"idle_s", use.idle_s},
                      {"end_s", use.end_s}});
  }
  Json links = Json::array();
  for (const simulate::LinkUse& use : summary.links) {
    links.push_back({{"name", use.name}, {"alike", use.alike}, {"bytes", use.bytes}, {"busy", use.busy}});
  }
  return {{"schema", "nest.simulation/1"},
          {"simulated",
           {{"iteration_s", summary.iteration_s},
            {"breakdown_s", breakdown_json(summary.breakdown_s)},
            {"stages", std::move(stages)},
            {"links", std::move(links)},
            {"contention", contention_json(summary)}}},
          {"predicted",
           {{"iteration_s", summary.predicted_s}, {"breakdown_s", breakdown_json(summary.predicted_breakdown_s)}}},
          {"difference", summary.difference()},
          {"cause", summary.cause.empty() ? Json() : Json(summary.cause)},
          {"noise", noisy_json(report)},
          {"steps", report.steps},
          {"engine", summary.engine},
          {"symmetry",
           {{"exact", true},
            {"replicas", report.plan.strategy.dp},
            {"replicas_simulated", report.replica_classes},
            {"links", report.links},
            {"links_simulated", report.link_classes},
            {"flows", report.flows},
            {"flows_simulated", report.routes},
            {"activities", report.activities}}},
          {"as_predicted", report.as_predicted}};
}

}  // namespace nest::report
