#include "accuracy/simulated.h"

#include <algorithm>
#include <map>

#include "base/index.h"
#include "cluster/torus_collective.h"

namespace nest::accuracy {
namespace {

constexpr std::int64_t kMostDevices = 1 << 20;

std::vector<double> numbers(const Fields& row, const char* key) {
  std::vector<double> values;
  const doc::Value* list = row.value(key);
  if (!list || !list->as_array()) return values;
  for (const doc::Value& value : *list->as_array()) {
    values.push_back(value.as_integer() ? real(*value.as_integer()) : value.as_real() ? *value.as_real() : -1);
  }
  return values;
}

std::vector<std::int64_t> devices_of(const doc::Value& list) {
  std::vector<std::int64_t> values;
  if (!list.as_array()) return values;
  for (const doc::Value& value : *list.as_array()) values.push_back(value.as_integer() ? *value.as_integer() : -1);
  return values;
}

cluster::Level level(double group, double gb_per_s, double latency_us) {
  cluster::Level made;
  made.name = "level";
  made.group = static_cast<std::int64_t>(group);
  made.bandwidth_bytes_per_s = gb_per_s * 1e9;
  made.latency_s = latency_us * 1e-6;
  return made;
}

bool all_positive(const std::vector<double>& values, double most) {
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [&](double value) { return value > 0 && value <= most; });
}

bool read_torus(const Fields& levels, Simulated& row) {
  const auto dims = numbers(levels, "dims");
  if (!all_positive(dims, 4096) || dims.size() > 3) return false;
  cluster::Torus torus;
  for (const double dim : dims) torus.dims.push_back(static_cast<std::int64_t>(dim));
  torus.wrap.assign(torus.dims.size(), true);
  torus.link_bytes_per_s = levels.number("link_GBps").value_or(0) * 1e9;
  torus.latency_s = levels.number("latency_us_per_hop").value_or(0) * 1e-6;
  if (torus.link_bytes_per_s <= 0 || torus.devices() > kMostDevices) return false;
  row.torus = torus;
  return true;
}

bool read_fabric(const Fields& levels, Simulated& row) {
  const auto groups = numbers(levels, "devices_per_level");
  const auto latency_us = numbers(levels, "latency_us_by_highest_level_crossed");
  if (!all_positive(groups, kMostDevices) || latency_us.size() != groups.size() || groups.size() > cluster::kMaxLevels)
    return false;
  std::vector<cluster::Level> made;
  if (const auto bandwidth = numbers(levels, "uplink_GBps_per_level"); !bandwidth.empty()) {
    if (bandwidth.size() != groups.size() || !all_positive(bandwidth, 1e9)) return false;
    for (std::size_t l = 0; l < groups.size(); ++l) made.push_back(level(groups[l], bandwidth[l], latency_us[l]));
  } else {
    const double port = levels.number("nic_GBps_per_device").value_or(0);
    const double inside = levels.number("nvlink_GBps").value_or(0);
    const double oversubscription = levels.number("oversubscription").value_or(0);
    if (groups.size() != 3 || port <= 0 || inside <= 0 || oversubscription <= 0) return false;
    const bool rail = levels.text("leaf") == "rail";
    const double leaf_ports = rail ? groups[1] : groups[0] * groups[1];
    made = {level(groups[0], inside, latency_us[0]), level(groups[1], port, latency_us[1]),
            level(groups[2], leaf_ports * port / oversubscription, latency_us[2])};
    made[1].rails = true;
    made[1].rail_switches = rail;
  }
  double devices = 1;
  for (const cluster::Level& one : made) devices *= real(one.group);
  if (devices > real(kMostDevices)) return false;
  row.fabric = cluster::make_fabric(made, static_cast<std::int64_t>(devices));
  return true;
}

std::int64_t device_count(const Simulated& row) { return row.torus ? row.torus->devices() : row.fabric->devices; }

bool inside(const std::vector<std::int64_t>& devices, std::int64_t count) {
  return std::all_of(devices.begin(), devices.end(),
                     [&](std::int64_t device) { return device >= 0 && device < count; });
}

bool read_listed(const doc::Value& list, Simulated& row) {
  if (!list.as_array() || list.as_array()->empty()) return false;
  for (const doc::Value& one : *list.as_array()) {
    row.listed.push_back(devices_of(one));
    if (row.listed.back().empty() || !inside(row.listed.back(), device_count(row))) return false;
  }
  return true;
}

bool read_group(const Fields& group, Simulated& row) {
  row.scattered = group.text("ids").value_or("").starts_with("mix");
  if (const doc::Value* listed = group.value("groups")) return read_listed(*listed, row);
  const std::int64_t count = group.integer("count").value_or(0);
  const std::int64_t stride = group.integer("stride").value_or(1);
  if (count < 1 || stride < 1 || (!group.value("start") && !group.value("starts"))) return false;
  GroupSpec spec;
  spec.first = group.integer("start").value_or(0);
  spec.members = {{stride, count}};
  const doc::Value* starts = group.value("starts");
  if (starts && starts->as_array()) {
    for (const std::int64_t start : devices_of(*starts)) {
      row.listed.push_back(list_groups({start, spec.members, {}})[0]);
      if (!inside(row.listed.back(), device_count(row))) return false;
    }
    return !row.listed.empty();
  }
  // Groups tile the cluster: `stride` of them side by side, then the next block of stride * count devices.
  if (starts) spec.siblings = {{1, stride}, {stride * count, std::max<std::int64_t>(1, row.groups / stride)}};
  std::int64_t last = spec.first;
  for (const auto& axes : {spec.members, spec.siblings}) {
    for (const Stride& axis : axes) last += axis.stride * (axis.count - 1);
  }
  if (!inside({spec.first, last}, device_count(row))) return false;
  row.spec = spec;
  return true;
}

std::optional<cluster::Collective> collective_of(const Simulated& row) {
  static const std::map<std::string, cluster::Collective> kNames = {
      {"allreduce", cluster::Collective::all_reduce},
      {"allgather", cluster::Collective::all_gather},
      {"reducescatter", cluster::Collective::reduce_scatter},
      {"alltoall", cluster::Collective::all_to_all},
      {"p2p", cluster::Collective::send_recv}};
  const auto found = kNames.find(row.collective);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

using Time = std::optional<cluster::CollectiveTime>;

Time tree_time(const Simulated& row, cluster::Collective collective) {
  const cluster::Fabric& fabric = *row.fabric;
  const cluster::GroupLayout layout =
      row.spec ? cluster::make_layout(fabric, *row.spec) : cluster::count_layout(fabric, row.listed);
  const auto with = [&](cluster::Algorithm algorithm) {
    return cluster::algorithm_time(fabric, layout, collective, row.bytes, algorithm);
  };
  if (row.kind == "multiring8") return with(cluster::Algorithm::multi_ring);
  if (row.algorithm == "ring") return with(cluster::Algorithm::ring);
  if (row.algorithm == "hd_near") return with(cluster::Algorithm::halving_doubling);
  if (row.algorithm.starts_with("hier"))
    return cluster::hierarchical_time(fabric, layout, collective, row.bytes, row.dims);
  if (row.algorithm == "direct" || row.algorithm == "p2p") return with(cluster::Algorithm::direct);
  if (row.algorithm == "pairwise") return with(cluster::Algorithm::pairwise);
  return std::nullopt;
}

Time torus_time(const Simulated& row, cluster::Collective collective) {
  const cluster::Torus& torus = *row.torus;
  if (row.algorithm == "p2p" && !row.listed.empty() && row.listed[0].size() > 1) {
    const double hops = real(torus.hops(row.listed[0][0], row.listed[0][1]));
    return cluster::CollectiveTime{.seconds = hops * torus.latency_s + row.bytes / torus.link_bytes_per_s};
  }
  const std::int64_t first = row.listed.empty() ? 0 : row.listed[0][0];
  const cluster::TorusPlace place =
      cluster::make_torus_place(torus, row.spec.value_or(GroupSpec{first, {{1, row.members}}, {}}));
  const auto with = [&](cluster::Algorithm algorithm) {
    return cluster::torus_algorithm_time(torus, place, collective, row.bytes, algorithm);
  };
  const auto rings = [&](std::size_t rotations, std::size_t directions) {
    return cluster::torus_dimension_rings(torus, place, collective, row.bytes, rotations, directions);
  };
  if (row.algorithm == "ring" || row.algorithm == "ring_snake") return with(cluster::Algorithm::ring);
  if (row.algorithm == "ring_bidir" || row.algorithm == "hier3_bidir") return rings(1, 2);
  if (row.algorithm == "hier2_xy" || row.algorithm == "hier3_xyz") return rings(1, 1);
  if (row.algorithm == "hier3_rot3") return rings(3, 1);
  if (row.algorithm == "hier3_rot3_bidir") return rings(3, 2);
  if (row.algorithm == "hd_near") return with(cluster::Algorithm::halving_doubling);
  if (row.algorithm == "direct") return with(cluster::Algorithm::direct);
  if (row.algorithm == "pairwise") return with(cluster::Algorithm::pairwise);
  return std::nullopt;
}

}  // namespace

std::optional<Simulated> read_simulated(const doc::Value& value) {
  const Fields fields(&value);
  Simulated row;
  row.topology = fields.text("topology").value_or("");
  row.collective = fields.text("collective").value_or("");
  row.algorithm = fields.text("algorithm").value_or("");
  row.kind = fields.text("kind").value_or("");
  row.members = fields.integer("n").value_or(0);
  row.groups = fields.integer("concurrent_groups").value_or(1);
  row.bytes = fields.number("bytes").value_or(0);
  row.seconds = fields.number("seconds").value_or(0);
  for (const double dim : numbers(fields, "hier_dims")) row.dims.push_back(static_cast<std::int64_t>(dim));
  if (row.members < 1 || row.groups < 1 || row.bytes <= 0 || row.seconds <= 0) return std::nullopt;
  const Fields levels = fields.object("levels");
  if (!(levels.value("dims") ? read_torus(levels, row) : read_fabric(levels, row))) return std::nullopt;
  if (row.members > device_count(row) || row.groups > device_count(row)) return std::nullopt;
  return read_group(fields.object("group"), row) ? std::optional(row) : std::nullopt;
}

std::optional<double> predict_s(const Simulated& row) {
  const auto collective = collective_of(row);
  if (!collective || row.scattered) return std::nullopt;
  const bool one_collective = row.kind.empty() || row.kind == "misaligned" || row.kind == "multiring8";
  if (!one_collective) return std::nullopt;
  const Time time = row.torus ? torus_time(row, *collective) : tree_time(row, *collective);
  return time ? std::optional(time->seconds) : std::nullopt;
}

}  // namespace nest::accuracy
