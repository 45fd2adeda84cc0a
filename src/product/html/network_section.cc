// Where the network is busy, and with what.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/units.h"
#include "html/plan_sections.h"

namespace nest::html {
namespace {

const char* style_of(TrafficKind kind) {
  switch (kind) {
    case TrafficKind::tensor: return "tp";
    case TrafficKind::context: return "cp";
    case TrafficKind::expert: return "ep";
    case TrafficKind::pipeline: return "p2p";
    case TrafficKind::weights: return "zero";
    case TrafficKind::gradients: return "grad_sync";
  }
  return "other";
}

double busy_of(const PlanView& view, std::size_t link) {
  double seconds = 0;
  for (const Traffic& traffic : view.network.traffic) seconds += view.network.busy_s(link, traffic);
  return seconds / view.plan.prediction.iteration_s;
}

std::string lead(const PlanView& view) {
  const NetworkUse& network = view.network;
  if (network.traffic.empty()) return "Nothing crosses the network.";
  std::size_t busiest = 0;
  for (std::size_t l = 1; l < network.links.size(); ++l) {
    if (busy_of(view, l) > busy_of(view, busiest)) busiest = l;
  }
  double waited_s = 0;
  for (const Traffic& traffic : network.traffic) waited_s += traffic.waited_s;
  return fmt::format(
      "The busiest links are those {}: they are busy {} of the step. Communication that nothing hides costs {}, {} of "
      "the step.",
      network.links[busiest].name, format_percent(busy_of(view, busiest)), format_duration(waited_s),
      format_percent(waited_s / view.plan.prediction.iteration_s));
}

Markup link_rows(const PlanView& view) {
  const NetworkUse& network = view.network;
  const double step_s = view.plan.prediction.iteration_s;
  Markup out;
  out.open("figure", {{"class", "network"}});
  out.open("p", {{"class", "legend"}});
  for (const Traffic& traffic : network.traffic) out.add(legend_entry(style_of(traffic.kind), to_string(traffic.kind)));
  out.close();
  double busiest = 0;
  for (std::size_t l = 0; l < network.links.size(); ++l) busiest = std::max(busiest, busy_of(view, l));
  const double most = busiest <= 0.1 ? 0.1 : busiest <= 0.25 ? 0.25 : busiest <= 0.5 ? 0.5 : std::max(1.0, busiest);
  for (std::size_t l = 0; l < network.links.size(); ++l) {
    const LinkKind& link = network.links[l];
    std::vector<BarPart> parts;
    std::string spoken;
    for (const Traffic& traffic : network.traffic) {
      const double share = network.busy_s(l, traffic) / step_s;
      if (share <= 0) continue;
      const std::string text = fmt::format("{} {}", to_string(traffic.kind), format_percent(share));
      parts.push_back({style_of(traffic.kind), share / most, text});
      spoken += (spoken.empty() ? "" : ", ") + text;
    }
    out.open("div", {{"class", "lane"}});
    out.open("div", {{"class", "grow"}});
    out.element("span",
                fmt::format("{} · {} links of {}", link.name, format_integer(static_cast<std::int64_t>(link.links)),
                            format_bandwidth(link.bytes_per_s)),
                {{"class", "over-bar"}});
    out.add(bar_of(parts, fmt::format("Links {}: {}", link.name, spoken.empty() ? "nothing" : spoken)));
    out.close();
    out.element("span", format_percent(busy_of(view, l)), {{"class", "busy"}});
    out.close();
  }
  out.element(
      "figcaption",
      fmt::format("Share of a step in which the links of each kind send, on average over the devices in use, per "
                  "direction and at the rate they sustain. The full width is {:.0f} % of the step.",
                  100 * most));
  return out.close();
}

// In decimal units, as the rates of links are.
std::string network_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  double value = bytes / 1e3;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) value /= 1e3, ++unit;
  return fmt::format("{:.{}f} {}", value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, kUnits[unit]);
}

}  // namespace

Markup network_section(const PlanView& view) {
  const NetworkUse& network = view.network;
  Markup out;
  out.element("p", lead(view), {{"class", "lead"}});
  if (network.traffic.empty()) return out;
  out.add(link_rows(view));
  std::vector<HtmlTable::Column> columns = {{"traffic", false}, {"ranks"}, {"stays", false},
                                            {"a device sends"}, {"takes"}, {"waited for"}};
  for (const LinkKind& link : network.links) columns.push_back({link.name});
  HtmlTable table("Traffic of one step", columns, "network-table");
  for (const Traffic& traffic : network.traffic) {
    std::vector<Markup> cells(columns.size());
    cells[0] = legend_entry(style_of(traffic.kind), to_string(traffic.kind));
    cells[1].text(format_integer(traffic.ranks));
    cells[2].text(traffic.reach);
    cells[3].text(network_bytes(traffic.sent_bytes));
    cells[4].text(format_duration(traffic.exchange_s));
    cells[5].text(format_duration(traffic.waited_s));
    for (std::size_t l = 0; l < network.links.size(); ++l) {
      cells[6 + l].text(traffic.link_bytes[l] > 0 ? network_bytes(traffic.link_bytes[l]) : "–");
    }
    table.add_cells(std::move(cells));
  }
  out.add(table.markup());
  out.element("p",
              "Per step. What a device sends and how long the exchanges take is that of the slowest stage; waited for "
              "is what is not hidden "
              "behind computing. The last columns: bytes of all devices together that leave by links of that kind, "
              "collectives counted as rings.",
              {{"class", "muted"}});
  return out;
}

}  // namespace nest::html
