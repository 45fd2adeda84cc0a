#include "simulate/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace nest::simulate {
namespace {

constexpr std::uint64_t kKinds = 8;

// A pair of devices as one number.
std::int64_t pair_of(std::int64_t from, std::int64_t to) { return from * cluster::kMaxDevices + to; }

}  // namespace

std::string Network::name_of(Kind kind, std::size_t level, std::int64_t unit) const {
  const auto child = [&] {
    return level == 0 ? fmt::format("device {}", unit) : fmt::format("{} {}", cluster_.levels[level - 1].name, unit);
  };
  switch (kind) {
    case Kind::up: return fmt::format("uplink of {}", child());
    case Kind::down: return fmt::format("downlink of {}", child());
    case Kind::port_up: return fmt::format("port of device {}, sending", unit);
    case Kind::port_down: return fmt::format("port of device {}, receiving", unit);
    case Kind::hop_up: return fmt::format("link {}+ of device {}", "xyzw"[level], unit);
    case Kind::pair:
      return fmt::format("link of device {} to device {}", unit / cluster::kMaxDevices, unit % cluster::kMaxDevices);
    case Kind::hop_down: return fmt::format("link {}- of device {}", "xyzw"[level], unit);
  }
  return {};
}

std::int32_t Network::link(Kind kind, std::size_t level, std::int64_t unit, double bytes_per_s) {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(unit) * cluster::kMaxLevels + level) * kKinds + static_cast<std::uint64_t>(kind);
  const auto [entry, added] = known_.try_emplace(key, static_cast<std::int32_t>(links_.size()));
  if (added) links_.push_back({name_of(kind, level, unit), bytes_per_s});
  return entry->second;
}

std::vector<std::int32_t> Network::climb(std::int64_t device, std::size_t top, bool upwards) {
  const cluster::Fabric& fabric = cluster_.fabric;
  std::vector<std::int32_t> links;
  std::size_t l = fabric.first_link(top);
  if (fabric.has_rails() && top >= fabric.rail_level) {
    links.push_back(link(upwards ? Kind::port_up : Kind::port_down, l, device, fabric.capacity[l]));
    ++l;
  }
  for (; l <= top; ++l) {
    std::int64_t unit = fabric.unit_of(l, device);
    if (fabric.rail_switches && fabric.has_rails() && l == fabric.rail_level + 1) {
      // One uplink per rail switch; a lane is a position in the node.
      const std::int64_t node = fabric.unit_of(fabric.rail_level, device);
      std::int64_t first = node * fabric.unit[fabric.rail_level];
      if (!fabric.regular) first = fabric.starts[fabric.rail_level][static_cast<std::size_t>(node)];
      unit = unit * fabric.unit[fabric.rail_level] + (device - first);
    }
    links.push_back(link(upwards ? Kind::up : Kind::down, l, unit, fabric.capacity[l]));
  }
  return links;
}

NetworkPath Network::fabric_path(std::int64_t from, std::int64_t to) {
  const cluster::Fabric& fabric = cluster_.fabric;
  std::size_t top = fabric.level_between(from, to);
  if (fabric.rail_switches && fabric.has_rails() && top == fabric.rail_level && top + 1 < fabric.levels) {
    const std::size_t r = fabric.rail_level;
    const auto lane = [&](std::int64_t device) {
      if (fabric.regular) return device % fabric.unit[r];
      return device - fabric.starts[r][static_cast<std::size_t>(fabric.unit_of(r, device))];
    };
    if (lane(from) != lane(to)) ++top;
  }
  NetworkPath path;
  path.latency_s = fabric.latency_s[top] + fabric.message_overhead_s;
  if (fabric.full_mesh && top == 0) {
    path.links = {link(Kind::pair, 0, pair_of(from, to), fabric.capacity[0])};
    return path;
  }
  path.links = climb(from, top, true);
  std::vector<std::int32_t> descent = climb(to, top, false);
  path.links.insert(path.links.end(), descent.rbegin(), descent.rend());
  return path;
}

NetworkPath Network::torus_path(std::int64_t from, std::int64_t to, bool falling) {
  const cluster::Torus& torus = *cluster_.torus;
  NetworkPath path;
  std::int64_t block = 1;
  std::int64_t at = from;
  for (std::size_t k = 0; k < torus.dims.size(); ++k) {
    const std::int64_t size = torus.dims[k];
    const std::int64_t target = to / block % size;
    std::int64_t here = at / block % size;
    const std::int64_t ahead = (target - here + size) % size;
    const bool rising = !torus.wrap[k] ? target > here : 2 * ahead == size ? !falling : 2 * ahead < size;
    while (here != target) {
      path.links.push_back(link(rising ? Kind::hop_up : Kind::hop_down, k, at, torus.link_bytes_per_s));
      const std::int64_t next = (here + (rising ? 1 : size - 1)) % size;
      at += (next - here) * block;
      here = next;
    }
    block *= size;
  }
  path.latency_s = static_cast<double>(path.links.size()) * torus.latency_s + torus.message_overhead_s;
  return path;
}

NetworkPath Network::path(std::int64_t from, std::int64_t to, bool falling) {
  if (from == to) return {};
  return cluster_.torus ? torus_path(from, to, falling) : fabric_path(from, to);
}

}  // namespace nest::simulate
