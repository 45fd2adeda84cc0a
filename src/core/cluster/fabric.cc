#include "cluster/fabric.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace nest::cluster {
namespace {

// First devices of the units of every level, from the children that each switch has.
void place_irregular_units(const std::vector<Level>& levels, Fabric& fabric) {
  for (std::size_t l = 0; l + 1 < levels.size(); ++l) {
    const auto& counts = levels[l].counts;
    const std::size_t children = l == 0 ? static_cast<std::size_t>(fabric.devices) : fabric.starts[l].size();
    auto& starts = fabric.starts[l + 1];
    for (std::size_t child = 0; child < children;) {
      NEST_CHECK(counts.empty() || starts.size() < counts.size(), "counts of a level do not cover its children");
      const std::int64_t group = counts.empty() ? levels[l].group : counts[starts.size()];
      starts.push_back(l == 0 ? static_cast<std::int64_t>(child) : fabric.starts[l][child]);
      child += static_cast<std::size_t>(group);
    }
  }
  // The largest unit stands for U_l.
  for (std::size_t l = 1; l < levels.size(); ++l) {
    const auto& starts = fabric.starts[l];
    std::int64_t largest = fabric.devices - starts.back();
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) largest = std::max(largest, starts[i + 1] - starts[i]);
    fabric.unit[l] = largest;
  }
}

void find_stretches(Fabric& fabric) {
  for (std::size_t l = 1; l < fabric.levels; ++l) {
    auto& stretches = fabric.stretches[l];
    const auto& starts = fabric.starts[l];
    if (starts.empty()) stretches.push_back({0, fabric.unit[l], ceil_div(fabric.devices, fabric.unit[l])});
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const std::int64_t size = (i + 1 < starts.size() ? starts[i + 1] : fabric.devices) - starts[i];
      if (!stretches.empty() && stretches.back().size == size) {
        ++stretches.back().units;
      } else {
        stretches.push_back({starts[i], size, 1});
      }
    }
  }
}

}  // namespace

std::int64_t Fabric::unit_of(std::size_t level, std::int64_t device) const {
  if (level == 0) return device;
  if (level >= levels) return 0;
  if (regular) return device / unit[level];
  const auto& first = starts[level];
  return std::upper_bound(first.begin(), first.end(), device) - first.begin() - 1;
}

UnitSpan Fabric::unit_at(std::size_t level, std::int64_t device) const {
  const auto& all = stretches[level];
  const auto after = std::upper_bound(all.begin(), all.end(), device, [](std::int64_t at, const UnitStretch& stretch) {
    return at < stretch.first_device;
  });
  const UnitStretch& stretch = *std::prev(after);
  const std::int64_t begin = device - (device - stretch.first_device) % stretch.size;
  return {begin, begin + stretch.size};
}

std::size_t Fabric::level_between(std::int64_t a, std::int64_t b) const {
  std::size_t level = 0;
  while (level + 1 < levels && unit_of(level + 1, a) != unit_of(level + 1, b)) ++level;
  return level;
}

Fabric make_fabric(const std::vector<Level>& levels, std::int64_t devices) {
  NEST_CHECK(!levels.empty() && levels.size() <= kMaxLevels, "a fabric has 1 … kMaxLevels levels");
  Fabric fabric;
  fabric.levels = levels.size();
  fabric.devices = devices;
  fabric.unit[0] = 1;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const Level& level = levels[l];
    fabric.unit[l + 1] = checked_product({fabric.unit[l], level.group});
    fabric.capacity[l] = level.bandwidth_bytes_per_s * level.efficiency / level.oversubscription;
    fabric.latency_s[l] = level.latency_s;
    if (level.rails && fabric.rail_level == kMaxLevels) {
      fabric.rail_level = l;
      fabric.rail_switches = level.rail_switches;
    }
    fabric.regular = fabric.regular && level.counts.empty();
    fabric.full_mesh = fabric.full_mesh || level.full_mesh;
  }
  fabric.unit[levels.size()] = devices;
  if (!fabric.regular) place_irregular_units(levels, fabric);
  find_stretches(fabric);
  return fabric;
}

}  // namespace nest::cluster
