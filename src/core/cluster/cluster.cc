#include "cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "base/units.h"
#include "cluster/rack_use.h"
#include "cluster/torus_collective.h"
#include "preset_data/preset_data.h"

namespace nest::cluster {
namespace {

[[noreturn]] void refuse(const Cluster& cluster, std::int64_t devices, const std::string& why) {
  throw InputError(fmt::format("{}: {} devices: {}", cluster.name, format_integer(devices), why));
}

void check_size(const Cluster& cluster, std::int64_t devices) {
  const SizeRule& sizes = cluster.sizes;
  if (devices < 1 || devices < sizes.at_least || devices > std::min(sizes.at_most, kMaxDevices)) {
    refuse(cluster, devices,
           fmt::format("allowed are {} … {}", format_integer(std::max<std::int64_t>(1, sizes.at_least)),
                       format_integer(std::min(sizes.at_most, kMaxDevices))));
  }
  if (devices % sizes.multiple_of != 0) {
    refuse(cluster, devices, fmt::format("must be a multiple of {}", sizes.multiple_of));
  }
}

// Levels up to the first one that can hold all devices; that one gets as many children as are needed.
void resize_levels(Cluster& cluster, std::int64_t devices) {
  for (const Level& level : cluster.levels) {
    if (!level.counts.empty()) refuse(cluster, devices, "its units differ in size; edit the cluster file instead");
  }
  if (level_with_use(cluster.levels)) {
    // A smaller size may have dropped levels that this one needs.
    if (!cluster.document.empty()) cluster.levels = read_cluster(cluster.document, cluster.name).levels;
    if (const std::string why = fit_use(cluster.levels, devices); !why.empty()) refuse(cluster, devices, why);
  }
  const std::int64_t node = cluster.levels[0].group;
  if (devices % node != 0 && node % devices != 0) {
    refuse(cluster, devices,
           fmt::format("nodes have {} devices; give a multiple of it, or an even part of one node", node));
  }
  std::int64_t unit = 1;
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
    const bool last = l + 1 == cluster.levels.size();
    if (last || devices <= unit * cluster.levels[l].group) {
      cluster.levels[l].group = ceil_div(devices, unit);
      cluster.levels[l].rail_switches = cluster.levels[l].rail_switches && last;
      cluster.levels.resize(l + 1);
      break;
    }
    unit *= cluster.levels[l].group;
  }
}

// The most cubic box of `devices`, of sides that are multiples of 4 where there are enough devices for that (slices are
// built from cubes of 4·4·4, and only whole cubes wrap around), and of powers of two below.
std::vector<std::int64_t> best_box(const Cluster& cluster, std::int64_t devices) {
  const std::size_t dimensions = cluster.torus->dims.size();
  std::int64_t cube = 1;
  for (std::size_t k = 0; k < dimensions; ++k) cube *= 4;
  const std::int64_t side = devices % cube == 0 ? 4 : 1;
  std::vector<std::int64_t> dims(dimensions, side);
  std::int64_t rest = devices / (side == 4 ? cube : 1);
  // Hand out the prime factors, largest first, each to the shortest side.
  std::vector<std::int64_t> factors;
  for (std::int64_t f = 2; f * f <= rest; ++f) {
    while (rest % f == 0) {
      factors.push_back(f);
      rest /= f;
    }
  }
  if (rest > 1) factors.push_back(rest);
  std::sort(factors.rbegin(), factors.rend());
  for (const std::int64_t factor : factors) *std::min_element(dims.begin(), dims.end()) *= factor;
  std::sort(dims.begin(), dims.end());
  return dims;
}

void resize_torus(Cluster& cluster, std::int64_t devices) {
  Torus& torus = *cluster.torus;
  torus.dims = best_box(cluster, devices);
  const std::int64_t longest = torus.dims.back();
  if (longest > 8 * std::max<std::int64_t>(4, torus.dims.front())) {
    refuse(cluster, devices, fmt::format("makes no box of similar sides (the longest would be {})", longest));
  }
  for (std::size_t k = 0; k < torus.dims.size(); ++k) torus.wrap[k] = torus.wrap[k] && torus.dims[k] % 4 == 0;
}

// Devices of the smallest level-l unit; the last one may be cut short.
std::int64_t smallest_unit(const Fabric& fabric, std::size_t l) {
  if (l == 0) return 1;
  if (l >= fabric.levels) return fabric.devices;
  std::int64_t smallest = fabric.devices;
  for (const UnitStretch& stretch : fabric.stretches[l]) {
    const std::int64_t last = stretch.first_device + (stretch.units - 1) * stretch.size;
    smallest = std::min({smallest, stretch.size, fabric.devices - last});
  }
  return smallest;
}

LevelSummary summarise_level(const Cluster& cluster, std::size_t l) {
  const Fabric& fabric = cluster.fabric;
  const Level& level = cluster.levels[l];
  LevelSummary summary;
  summary.name = level.name;
  summary.units = l + 1 == fabric.levels ? 1 : fabric.unit_of(l + 1, fabric.devices - 1) + 1;
  summary.devices_per_unit = fabric.unit[l + 1];
  summary.fewest_devices_per_unit = smallest_unit(fabric, l + 1);
  summary.link_bytes_per_s = fabric.capacity[l];
  const double sharing =
      fabric.lanes(l) ? (l == fabric.rail_level ? 1.0 : real(fabric.unit[l]) / real(fabric.unit[fabric.rail_level]))
                      : real(fabric.unit[l]);
  summary.device_bytes_per_s = l == 0 ? fabric.inside_rate(fabric.unit[1]) : fabric.capacity[l] / sharing;
  summary.links_per_device = level.full_mesh ? std::max<std::int64_t>(1, fabric.unit[1] - 1) : 1;
  summary.latency_s = level.latency_s;
  summary.rails = level.rails;
  summary.oversubscription = level.oversubscription;
  summary.planes = level.planes;
  return summary;
}

std::vector<LevelSummary> summarise_torus(const Cluster& cluster) {
  const Torus& torus = *cluster.torus;
  std::vector<LevelSummary> summaries;
  const double links = real(2 * torus.dims.size());
  summaries.push_back(
      {"neighbour", torus.devices(), 1, torus.link_bytes_per_s, torus.link_bytes_per_s, torus.latency_s, 1, false, 1});
  std::int64_t hops = 0;
  std::int64_t span = 1;
  for (std::size_t k = 0; k < torus.dims.size(); ++k) {
    hops += torus.wrap[k] ? torus.dims[k] / 2 : torus.dims[k] - 1;
    span *= torus.dims[k];
    // Of its 2·dimensions links a device has two along the dimensions used so far.
    const double used = 2 * real(k + 1);
    summaries.push_back({fmt::format("{}-D box", k + 1), torus.devices() / span, span, torus.link_bytes_per_s,
                         std::min(used, links) * torus.link_bytes_per_s, real(hops) * torus.latency_s, 1, false, span});
  }
  return summaries;
}

Cluster read_shipped_cluster(const EmbeddedFile& file) {
  return read_cluster(doc::parse_yaml(fmt::format("clusters/{}.yaml", file.name), std::string(file.text)), file.name);
}

}  // namespace

Cluster resized(const Cluster& cluster, std::int64_t devices) {
  if (devices == cluster.devices) return cluster;
  Cluster result = cluster;
  check_size(cluster, devices);
  if (!cluster.device_names.empty()) refuse(cluster, devices, "a cluster given as a graph has the size it has");
  if (cluster.torus) {
    resize_torus(result, devices);
  } else {
    resize_levels(result, devices);
    const double overhead_s = cluster.fabric.message_overhead_s;
    result.fabric = make_fabric(result.levels, devices);
    result.fabric.message_overhead_s = overhead_s;
  }
  result.devices = devices;
  result.node_names.clear();
  if (!result.levels.empty()) result.node_level = std::min(result.node_level, result.levels.size() - 1);
  return result;
}

const Shelf<Cluster>& cluster_presets() {
  static const Shelf<Cluster> kClusters = [] {
    std::vector<Cluster> clusters;
    for (const EmbeddedFile& file : embedded_files("clusters")) clusters.push_back(read_shipped_cluster(file));
    return Shelf<Cluster>(std::move(clusters));
  }();
  return kClusters;
}

std::optional<Cluster> find_cluster(std::string_view name, std::optional<std::int64_t> devices) {
  const auto sized = [&](const Cluster& cluster) { return devices ? resized(cluster, *devices) : cluster; };
  static const std::span<const EmbeddedFile> kFiles = embedded_files("clusters");
  static ReadOnce<Cluster> shipped(kFiles.size());
  if (const EmbeddedFile* file = embedded_file("clusters", to_lower(name))) {
    const auto index = static_cast<std::size_t>(file - kFiles.data());
    return sized(shipped.at(index, [&] { return read_shipped_cluster(*file); }));
  }
  const Cluster* found = cluster_presets().find(name);
  return found == nullptr ? std::nullopt : std::optional(sized(*found));
}

std::string assumed_links(const Cluster& cluster) {
  std::string text;
  for (const Level& level : cluster.levels) {
    if (!level.assumed) continue;
    text += fmt::format("{}{}: {:.0f} % of {} after {}", text.empty() ? "" : ", ", level.name, 100 * level.efficiency,
                        format_bandwidth(level.bandwidth_bytes_per_s), format_duration(level.latency_s));
  }
  return text;
}

void refuse_fast_links(const Cluster& cluster) {
  constexpr double kRounding = 1.001;
  if (cluster.levels.empty() || cluster.device.link_bytes_per_s <= 0) return;
  const Level& inner = cluster.levels.front();
  const double own = cluster.device.link_bytes_per_s;
  if (inner.full_mesh) {
    const std::int64_t links = std::max<std::int64_t>(1, inner.group - 1);
    if (real(links) * inner.bandwidth_bytes_per_s <= kRounding * own) return;
    throw InputError(
        fmt::format("{}: levels[0].bandwidth: {} links of {} are more than the {} that all links of {} carry in one "
                    "direction; in a "
                    "full mesh it is the bandwidth of one link, at most {:.5g}GB/s here",
                    cluster.document.name(), links, format_bandwidth(inner.bandwidth_bytes_per_s),
                    format_bandwidth(own), cluster.device.name, own / real(links) / 1e9));
  }
  if (inner.bandwidth_bytes_per_s <= kRounding * own) return;
  throw InputError(fmt::format(
      "{}: levels[0].bandwidth: {} is more than the {} that the links of {} carry in one direction{}",
      cluster.document.name(), format_bandwidth(inner.bandwidth_bytes_per_s), format_bandwidth(own),
      cluster.device.name,
      inner.bandwidth_bytes_per_s <= 2 * kRounding * own
          ? fmt::format("; data sheets add up both directions: write {:.0f}GB/s", inner.bandwidth_bytes_per_s / 2e9)
          : std::string()));
}

std::optional<std::int64_t> devices_per_node(const Cluster& cluster) {
  if (cluster.torus) return std::nullopt;
  std::int64_t devices = 1;
  for (std::size_t l = 0; l <= cluster.node_level && l < cluster.levels.size(); ++l) devices *= cluster.levels[l].group;
  return devices;
}

std::int64_t devices_per_tray(const Cluster& cluster) {
  return cluster.torus || cluster.node_level != 0 || cluster.levels.empty() ? 0 : cluster.levels[0].tray;
}

GroupLayout place_group(const Cluster& cluster, const GroupSpec& spec) {
  if (!cluster.torus) return make_layout(cluster.fabric, spec);
  GroupLayout layout;
  layout.members = spec.size();
  layout.torus = make_torus_place(*cluster.torus, spec);
  return layout;
}

std::int64_t hosts_of(const Cluster& cluster, const GroupLayout& layout) {
  if (cluster.torus) return 0;
  std::int64_t together = cluster.fabric.levels < 2 ? layout.members : std::max<std::int64_t>(1, layout.inside[1]);
  if (const std::int64_t tray = devices_per_tray(cluster); tray > 0) together = std::min(together, tray);
  return ceil_div(layout.members, together);
}

CollectiveTime collective_time(const Cluster& cluster, const GroupLayout& layout, Collective collective, double bytes) {
  if (layout.members < 2) return {};
  if (!cluster.measured.empty()) {
    const auto time = measured_time(cluster.measured, collective, layout.members, hosts_of(cluster, layout), bytes);
    if (time) return {time->seconds, time->latency_s, time->seconds - time->latency_s, Algorithm::measured, layout.top};
  }
  return cluster.torus ? torus_best_time(*cluster.torus, layout.torus, collective, bytes, cluster.algorithms.allowed())
                       : best_time(cluster.fabric, layout, collective, bytes, cluster.algorithms.allowed());
}

std::vector<LevelSummary> summarise(const Cluster& cluster) {
  if (cluster.torus) return summarise_torus(cluster);
  std::vector<LevelSummary> summaries;
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) summaries.push_back(summarise_level(cluster, l));
  for (std::size_t l = 2; l < summaries.size(); ++l) {
    summaries[l].oversubscription =
        std::max(1.0, summaries[l - 1].device_bytes_per_s / summaries[l].device_bytes_per_s);
  }
  return summaries;
}

}  // namespace nest::cluster
