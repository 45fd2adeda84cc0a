// Which stage sits on which device, reduced to what can be drawn: runs of devices, the units that hold them, and which
// units look alike.
//
// A tier is a list of units of one kind (nodes, racks, …), each a range of devices; the first tier is the tiles, which
// are drawn device by device. Large clusters are drawn in two steps: an overview of the units of one tier, and one unit
// of every kind in full. Where a cluster has no tier of a fitting size, one is made of equal numbers of tiles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "groups/rank_groups.h"

namespace nest::html {

struct DeviceRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t stage = -1;  // -1: idle
  bool operator==(const DeviceRun&) const = default;
};

// The devices begin … end-1 as runs of one stage of one replica each; idle devices are one run.
std::vector<DeviceRun> stage_runs(const groups::RankGroups& ranks, std::int64_t begin, std::int64_t end);

struct Tier {
  std::string name;                  // "node"
  std::vector<std::int64_t> starts;  // first device of every unit
  std::int64_t devices = 0;          // where the last one ends
  bool made_up = false;              // not a part of the network

  std::size_t count() const { return starts.size(); }
  std::int64_t begin(std::size_t unit) const { return starts[unit]; }
  std::int64_t end(std::size_t unit) const { return unit + 1 < starts.size() ? starts[unit + 1] : devices; }
  std::int64_t largest() const;
  // Units of this tier whose first device is among begin … end-1: first index and number.
  std::pair<std::size_t, std::size_t> within(std::int64_t begin, std::int64_t end) const;
};

// Units that hold the same stages at the same places.
struct UnitKinds {
  std::vector<std::size_t> kind_of;   // by unit
  std::vector<std::size_t> examples;  // first unit of each kind
  std::vector<std::int64_t> counts;   // units of each kind
};
UnitKinds find_kinds(const groups::RankGroups& ranks, const Tier& tier);

struct DeviceMap {
  std::vector<Tier> tiers;   // tiles first; never empty
  std::int64_t columns = 1;  // of a tile
  std::size_t overview = 0;  // tier of the overview; 0: everything is drawn in full
  std::int64_t largest_tile = 1;
};

inline constexpr std::size_t kMostTilesInFull = 128;
inline constexpr std::int64_t kMostDevicesInFull = 1024;
inline constexpr std::size_t kMostUnits = 512;  // of an overview
inline constexpr std::size_t kMostTilesOfUnit = 128;

DeviceMap make_device_map(const cluster::Cluster& cluster);

}  // namespace nest::html
