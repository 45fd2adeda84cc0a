#include "html/simulation_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/units.h"

namespace nest::html {
namespace {

constexpr std::size_t kMostLanes = 16;
constexpr std::size_t kMostLinks = 12;
constexpr double kLaneHeight = 22;

std::string difference_text(double fraction) {
  return std::abs(fraction) < 5e-5 ? "0.00 %" : fmt::format("{:+.2f} %", 100 * fraction);
}

std::string lead(const simulate::SimulationSummary& summary) {
  std::string text =
      fmt::format("Executed event by event on the simulated network the step takes {}; {} were predicted ({}).",
                  format_duration(summary.iteration_s), format_duration(summary.predicted_s),
                  difference_text(summary.difference()));
  if (!summary.cause.empty()) text += " The difference: " + summary.cause + ".";
  return text;
}

Markup phases(const simulate::SimulationSummary& summary) {
  HtmlTable table("Simulated and predicted time of every part of a step",
                  {{"part", false}, {"simulated s"}, {"predicted s"}, {"apart"}, {"", false}}, "simulation-table");
  double largest = 0;
  for (const BreakdownPart& part : kBreakdownParts) {
    largest = std::max({largest, summary.breakdown_s.*part.seconds, summary.predicted_breakdown_s.*part.seconds});
  }
  for (const BreakdownPart& part : kBreakdownParts) {
    const double simulated = summary.breakdown_s.*part.seconds, predicted = summary.predicted_breakdown_s.*part.seconds;
    if (std::max(simulated, predicted) < 5e-7 * summary.predicted_s) continue;
    std::vector<Markup> cells(5);
    cells[0] = legend_entry(part.key, part.name);
    cells[1].text(fmt::format("{:.4f}", simulated));
    cells[2].text(fmt::format("{:.4f}", predicted));
    cells[3].text(difference_text((simulated - predicted) / summary.predicted_s));
    cells[4].add(bar_of({{part.key, simulated / largest, "simulated"}},
                        fmt::format("simulated {}", format_duration(simulated))));
    cells[4].add(bar_of({{part.key, predicted / largest, "predicted"}},
                        fmt::format("predicted {}", format_duration(predicted))));
    table.add_cells(std::move(cells));
  }
  table.add({"one step", fmt::format("{:.4f}", summary.iteration_s), fmt::format("{:.4f}", summary.predicted_s),
             difference_text(summary.difference()), ""});
  return table.markup();
}

// The outline of shares over the slices of a step, on top of `below`.
std::string outline(const std::array<double, simulate::kSlices>& shares,
                    const std::array<double, simulate::kSlices>& below) {
  std::string path;
  for (std::size_t k = 0; k < simulate::kSlices; ++k) {
    const double base = kLaneHeight * (1 - std::min(1.0, below[k]));
    const double height = kLaneHeight * std::clamp(shares[k], 0.0, 1.0 - std::min(1.0, below[k]));
    if (height < 0.05) continue;
    path += fmt::format("M{} {}v-{}h1v{}z", k, coordinate(base), coordinate(height), coordinate(height));
  }
  return path;
}

Markup lane(const simulate::SimulationSummary& summary, std::size_t stage, bool pipelined) {
  const simulate::StageUse& use = summary.stages[stage];
  Markup out;
  out.open("div", {{"class", "lane"}});
  out.element("span", pipelined ? std::to_string(stage) : "all", {{"class", "who"}});
  out.open("svg", {{"class", "strip"},
                   {"aria-hidden", "true"},
                   {"viewBox", fmt::format("0 0 {} {}", simulate::kSlices, kLaneHeight)},
                   {"preserveAspectRatio", "none"}});
  out.empty("path", {{"class", "bwd"}, {"d", outline(use.computing, {})}});
  out.empty("path", {{"class", "p2p"}, {"d", outline(use.waiting, use.computing)}});
  out.close();
  out.element("span", format_percent(use.compute_s / summary.iteration_s), {{"class", "busy"}});
  return out.close();
}

Markup lanes(const simulate::SimulationSummary& summary) {
  const std::size_t stages = summary.stages.size(), count = std::min(stages, kMostLanes);
  Markup out;
  out.open("figure", {{"class", "timeline"}});
  out.open("p", {{"class", "legend"}});
  out.add(legend_entry("bwd", "computing"));
  out.add(legend_entry("p2p", "waiting for a message or for state under way"));
  out.element("span", "blank: nothing to do", {{"class", "key"}});
  out.close();
  out.open("div", {{"role", "img"},
                   {"aria-label", fmt::format("How busy each of {} stages is over the simulated step.", stages)}});
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t stage = count == 1 ? 0 : (i * (stages - 1) + (count - 1) / 2) / (count - 1);
    out.add(lane(summary, stage, stages > 1));
  }
  out.open("div", {{"class", "track ticks"}, {"aria-hidden", "true"}});
  out.element("span", "0 s", {{"class", "first"}, {"style", "left:0"}});
  out.element("span", format_duration(summary.iteration_s), {{"class", "last"}, {"style", "left:100%"}});
  out.close();
  out.close();
  out.element("figcaption",
              fmt::format("{} of the pipeline that ends last, one per row; at the right, the share of the step that it "
                          "computes. What follows the last backward is the exchange of gradients and the optimizer.",
                          count < stages ? fmt::format("{} of {} stages", count, stages) : std::string("The stages")));
  return out.close();
}

Markup links(const simulate::SimulationSummary& summary) {
  HtmlTable table("The busiest links of the simulated step",
                  {{"link", false}, {"alike"}, {"GB a step"}, {"busy"}, {"", false}});
  for (std::size_t i = 0; i < std::min(kMostLinks, summary.links.size()); ++i) {
    const simulate::LinkUse& use = summary.links[i];
    std::vector<Markup> cells(5);
    cells[0].text(use.name);
    cells[1].text(format_integer(use.alike));
    cells[2].text(fmt::format("{:.2f}", use.bytes / 1e9));
    cells[3].text(format_percent(use.busy));
    cells[4] = bar_of({{"p2p", std::min(1.0, use.busy), ""}}, fmt::format("busy {}", format_percent(use.busy)));
    table.add_cells(std::move(cells));
  }
  return table.is_empty() ? Markup() : table.markup();
}

Markup contention(const simulate::SimulationSummary& summary) {
  HtmlTable table("Transfers that others slow down",
                  {{"what", false}, {"times as long"}, {"lost s"}, {"on", false}, {"beside", false}, {"from"}, {"to"}});
  for (std::size_t i = 0; i < std::min(kMostLinks, summary.slowed.size()); ++i) {
    const simulate::SlowedTransfers& slowed = summary.slowed[i];
    const std::string alike = slowed.alike > 1 ? fmt::format(" and {} like it", format_integer(slowed.alike - 1)) : "";
    table.add({slowed.what, fmt::format("{:.2f}", slowed.taken_s / slowed.alone_s),
               fmt::format("{:.4f}", slowed.lost_s()), slowed.link + alike, join_words(slowed.beside),
               format_percent(slowed.begin_s / summary.iteration_s),
               format_percent(slowed.end_s / summary.iteration_s)});
  }
  return table.is_empty() ? Markup() : table.markup();
}

}  // namespace

HtmlSection simulation_section(const report::SimulationReport& report) {
  const simulate::SimulationSummary& summary = report.summary;
  Markup body;
  body.element("p", lead(summary), {{"class", "lead"}});
  if (!report.noisy.iteration_s.empty()) body.element("p", report::noisy_text(report) + ".");
  body.add(lanes(summary));
  body.add(phases(summary));
  body.add(links(summary));
  body.add(contention(summary));
  body.element("p",
               fmt::format("Bars: simulated above, predicted below. {} activities, executed by {}; replicas that "
                           "behave alike are simulated "
                           "once, which is exact.",
                           format_integer(static_cast<std::int64_t>(report.activities)), summary.engine),
               {{"class", "muted"}});
  if (!report.as_predicted.empty()) {
    body.element("p", "Taken as predicted: " + fmt::format("{}", fmt::join(report.as_predicted, "; ")) + ".",
                 {{"class", "muted"}});
  }
  return {"simulation", "The simulation", std::move(body)};
}

}  // namespace nest::html
