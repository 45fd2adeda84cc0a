#include "report/cluster_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/layout.h"
#include "base/text.h"
#include "base/units.h"
#include "cluster/rack_use.h"
#include "report/device_report.h"
#include "report/table.h"

namespace nest::report {
namespace {

// What two devices that meet at `level` have when nobody else sends: the narrowest of the links that the flow takes.
double alone_bytes_per_s(const cluster::Cluster& cluster, std::size_t level, const cluster::LevelSummary& summary) {
  if (cluster.torus) return summary.link_bytes_per_s;
  const cluster::Fabric& fabric = cluster.fabric;
  const std::size_t first = fabric.first_link(level);
  return *std::min_element(fabric.capacity.begin() + static_cast<std::ptrdiff_t>(first),
                           fabric.capacity.begin() + static_cast<std::ptrdiff_t>(level) + 1);
}

std::string torus_shape(const cluster::Torus& torus) {
  std::string dims;
  for (const std::int64_t size : torus.dims) dims += (dims.empty() ? "" : " x ") + std::to_string(size);
  const auto wrapped = std::count(torus.wrap.begin(), torus.wrap.end(), true);
  const bool closed = wrapped == static_cast<std::ptrdiff_t>(torus.wrap.size());
  return dims + (closed ? " torus" : wrapped == 0 ? " mesh" : " torus, partly open");
}

// "1 node", "32 nodes".
std::string plural(const std::string& name, std::int64_t count) {
  return format_integer(count) + " " + cluster::plural_of(name, count);
}

// "128 devices", or "72-128 devices" where units differ.
std::string devices_of(const cluster::LevelSummary& level) {
  if (level.fewest_devices_per_unit == level.devices_per_unit) return plural("device", level.devices_per_unit);
  return fmt::format("{}-{} devices", format_integer(level.fewest_devices_per_unit),
                     format_integer(level.devices_per_unit));
}

// The levels as nested boxes, the whole cluster on top.
std::string tree_text(const cluster::Cluster& cluster, const std::vector<cluster::LevelSummary>& levels,
                      const Style& style) {
  Table table({{"", Align::left, true, Ink::accent}, {"", Align::left}, {"", Align::left, true}});
  std::string indent;
  for (std::size_t l = levels.size(); l-- > 0;) {
    const cluster::LevelSummary& level = levels[l];
    const std::string count = level.units == 1 ? std::string() : format_integer(level.units) + " x ";
    std::string link = fmt::format("{} per {}", format_bandwidth(level.link_bytes_per_s),
                                   level.rails || l == 0 ? "device" : levels[l - 1].name);
    if (level.links_per_device > 1) link = fmt::format("{} x {}", level.links_per_device, link);
    if (level.planes > 1) link += fmt::format(" in {} planes", level.planes);
    if (level.oversubscription > 1) link += fmt::format(", {:.3g}:1 oversubscribed", level.oversubscription);
    table.add({indent + count + level.name, devices_of(level), link});
    indent = l + 1 == levels.size() ? "└─ " : indent.insert(0, "   ");
  }
  const Precision precision = training_precision(cluster.device);
  table.add({fmt::format("{}{} x {}", indent, format_integer(cluster.devices), cluster.device.name),
             format_bytes(cluster.device.memory_bytes),
             fmt::format("{} in {}", format_compute_rate(cluster.device.peak(precision)), to_string(precision))});
  return table.render(style);
}

// Classes of pairs of devices, closest first. On a torus more links serve a larger box, so a flow has one link and a
// device that sends to all sides has several.
std::string pairs_table(const cluster::Cluster& cluster, const std::vector<cluster::LevelSummary>& levels,
                        const Style& style) {
  const bool torus = cluster.torus.has_value();
  Table table({{torus ? "devices of one" : "two devices of one", Align::left, true, Ink::accent},
               {torus ? "one link" : "alone"},
               {torus ? "all links of a device" : "when all send"},
               {torus ? "latency across" : "latency"}});
  for (std::size_t l = 0; l < levels.size(); ++l) {
    table.add({levels[l].name, format_bandwidth(alone_bytes_per_s(cluster, l, levels[l])),
               format_bandwidth(levels[l].device_bytes_per_s), format_duration(levels[l].latency_s)});
  }
  return table.render(style);
}

}  // namespace

std::string cluster_shape(const cluster::Cluster& cluster) {
  if (cluster.torus) return torus_shape(*cluster.torus);
  const std::string use = cluster::use_text(cluster);
  std::string shape = use;
  const std::vector<cluster::LevelSummary> levels = cluster::summarise(cluster);
  const std::size_t told = use.empty() ? 0 : *cluster::level_with_use(cluster.levels) + 1;
  for (std::size_t l = told; l < levels.size(); ++l) {
    const cluster::LevelSummary& level = levels[l];
    if (level.units == 1) continue;
    const std::string fewest = level.fewest_devices_per_unit < level.devices_per_unit
                                   ? format_integer(level.fewest_devices_per_unit) + "-"
                                   : std::string();
    shape += shape.empty() ? fmt::format("{} of {}{}", plural(level.name, level.units), fewest, level.devices_per_unit)
                           : ", " + plural(level.name, level.units);
  }
  return shape.empty() ? "one unit" : shape;
}

std::string cluster_text(const cluster::Cluster& cluster, const Style& style) {
  const std::vector<cluster::LevelSummary> levels = cluster::summarise(cluster);
  const std::string headline =
      fmt::format("{}: {} x {}, {}", cluster.description.empty() ? cluster.name : cluster.description,
                  format_integer(cluster.devices), cluster.device.description, cluster_shape(cluster));
  std::string text = style.paint(Ink::strong, wrap_after("", headline)) + "\n\n";
  if (!cluster.torus) text += tree_text(cluster, levels, style) + '\n';
  text += pairs_table(cluster, levels, style) + '\n';

  const auto devices = static_cast<double>(cluster.devices);
  const Precision precision = training_precision(cluster.device);
  text +=
      fmt::format("  together  {}, {} in {}\n",
                  format_bytes(static_cast<std::int64_t>(devices * static_cast<double>(cluster.device.memory_bytes))),
                  format_compute_rate(devices * cluster.device.peak(precision)), to_string(precision));
  if (const std::string links = cluster::assumed_links(cluster); !links.empty()) {
    text += wrap_after("  assumed   ", links + "; as measured on DGX H100, because the file says neither") + '\n';
  }
  if (const std::int64_t tray = cluster::devices_per_tray(cluster); tray > 0) {
    text += fmt::format("  trays     of {} devices, each a host\n", tray);
  }
  const cluster::SizeRule& sizes = cluster.sizes;
  if (sizes.at_least < sizes.at_most && sizes.at_most < cluster::kMaxDevices) {
    text += fmt::format("  sizes     {} to {} devices", format_integer(sizes.at_least), format_integer(sizes.at_most));
    if (sizes.multiple_of > 1) text += fmt::format(", in steps of {}", sizes.multiple_of);
    text += " (--devices)\n";
  }
  if (!cluster.source.empty()) text += wrap_after("  source    ", cluster.source) + '\n';
  return text;
}

Json cluster_json(const cluster::Cluster& cluster) {
  Json levels = Json::array();
  const std::vector<cluster::LevelSummary> summaries = cluster::summarise(cluster);
  for (std::size_t l = 0; l < summaries.size(); ++l) {
    const cluster::LevelSummary& level = summaries[l];
    levels.push_back({{"name", level.name},
                      {"units", level.units},
                      {"devices_per_unit", level.devices_per_unit},
                      {"fewest_devices_per_unit", level.fewest_devices_per_unit},
                      {"link_bytes_per_s", json_number(level.link_bytes_per_s)},
                      {"alone_bytes_per_s", json_number(alone_bytes_per_s(cluster, l, level))},
                      {"device_bytes_per_s", json_number(level.device_bytes_per_s)},
                      {"latency_s", json_number(level.latency_s)},
                      {"oversubscription", json_number(level.oversubscription)},
                      {"rails", level.rails}});
    if (level.planes > 1) levels.back()["planes"] = level.planes;
    if (level.links_per_device > 1) levels.back()["links_per_device"] = level.links_per_device;
  }
  Json document = {{"name", cluster.name},
                   {"description", cluster.description},
                   {"aliases", cluster.aliases},
                   {"source", cluster.source},
                   {"devices", cluster.devices},
                   {"device", device_json(cluster.device)},
                   {"levels", std::move(levels)},
                   {"sizes",
                    {{"at_least", cluster.sizes.at_least},
                     {"at_most", cluster.sizes.at_most},
                     {"multiple_of", cluster.sizes.multiple_of}}}};
  if (const auto rack = cluster::level_with_use(cluster.levels)) {
    const std::int64_t below = summaries[*rack].devices_per_unit / cluster.levels[*rack].group;
    document["use"] = {{"level", cluster.levels[*rack].name},
                       {"units", summaries[*rack].units},
                       {"used", below * cluster.levels[*rack].group},
                       {"built", below * cluster.levels[*rack].built},
                       {"text", cluster::use_text(cluster)}};
  }
  if (const std::int64_t tray = cluster::devices_per_tray(cluster); tray > 0) document["devices_per_tray"] = tray;
  if (cluster.torus) {
    document["torus"] = {{"dims", cluster.torus->dims},
                         {"wrap", cluster.torus->wrap},
                         {"link_bytes_per_s", json_number(cluster.torus->link_bytes_per_s)},
                         {"latency_s", json_number(cluster.torus->latency_s)}};
  }
  return document;
}

}  // namespace nest::report
