#include "importer/node_inside.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace nest::importer {
namespace {

// Units as the first device of each device's unit, or nothing where they are not made of neighbours.
std::optional<std::vector<std::size_t>> units_within(const DevicePairs& pairs, Closeness closeness) {
  const std::size_t n = pairs.devices();
  std::vector<std::size_t> first(n, n);
  std::vector<std::size_t> open;
  for (std::size_t start = 0; start < n; ++start) {
    if (first[start] != n) continue;
    first[start] = start;
    open.assign(1, start);
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      for (std::size_t next = 0; next < n; ++next) {
        if (first[next] != n || pairs.closeness(at, next) > closeness) continue;
        first[next] = start;
        open.push_back(next);
      }
    }
  }
  // Neighbours: the unit changes only where a new one begins.
  for (std::size_t i = 1; i < n; ++i) {
    if (first[i] != first[i - 1] && first[i] != i) return std::nullopt;
  }
  return first;
}

std::vector<std::int64_t> count_children(const std::vector<std::size_t>& below, const std::vector<std::size_t>& units) {
  std::vector<std::int64_t> children;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (units[i] == i) children.push_back(0);
    if (below[i] == i) ++children.back();
  }
  return children;
}

}  // namespace

DevicePairs::DevicePairs(std::size_t devices) : devices_(devices), pairs_(devices * devices) {}

void DevicePairs::set(std::size_t a, std::size_t b, Closeness closeness, std::int64_t nvlinks) {
  pairs_[a * devices_ + b] = pairs_[b * devices_ + a] = {closeness, nvlinks};
}

std::vector<InsideLevel> inside_levels(const DevicePairs& pairs, std::vector<std::string>& notes) {
  static constexpr std::array<std::pair<Closeness, const char*>, 4> kKinds = {{{Closeness::nvlink, "island"},
                                                                               {Closeness::pcie, "bridge"},
                                                                               {Closeness::host, "socket"},
                                                                               {Closeness::system, "node"}}};
  std::vector<InsideLevel> levels;
  std::vector<std::size_t> below(pairs.devices());
  for (std::size_t i = 0; i < below.size(); ++i) below[i] = i;
  for (const auto& [closeness, name] : kKinds) {
    const auto units = units_within(pairs, closeness);
    if (!units) {
      notes.push_back(
          fmt::format("devices that are close by {} are not numbered as neighbours; that grouping is left out",
                      closeness == Closeness::nvlink ? "NVLink" : "PCIe"));
      continue;
    }
    const bool whole = units->back() == 0;
    if (*units == below && !(whole && levels.empty())) continue;
    InsideLevel level;
    level.name = whole ? "node" : name;
    level.closeness = closeness;
    level.children = count_children(below, *units);
    levels.push_back(std::move(level));
    below = *units;
    if (whole) break;
  }
  return levels;
}

std::optional<double> nvlink_bytes_per_s(std::string_view device) {
  static constexpr std::array<std::pair<std::string_view, double>, 9> kRates = {{{"v100", 25e9},
                                                                                 {"a100", 25e9},
                                                                                 {"a800", 25e9},
                                                                                 {"h100", 25e9},
                                                                                 {"h200", 25e9},
                                                                                 {"b200", 50e9},
                                                                                 {"b300", 50e9},
                                                                                 {"gb200", 50e9},
                                                                                 {"gb300", 50e9}}};
  for (const auto& [family, rate] : kRates) {
    if (device.starts_with(family)) return rate;
  }
  return std::nullopt;
}

bool adapters_are_private(const std::vector<std::vector<std::size_t>>& closest, std::size_t adapters) {
  std::vector<bool> taken(adapters);
  for (const auto& own : closest) {
    if (own.empty() || own.size() != closest.front().size()) return false;
    for (const std::size_t adapter : own) {
      if (taken[adapter]) return false;
      taken[adapter] = true;
    }
  }
  return !closest.empty();
}

}  // namespace nest::importer
