// Levels from an explicit list of links.
//
// Two devices are as close as the path of least latency between them; devices do not forward unless some could not be
// reached otherwise. Levels are the distinct latencies, smallest first: devices within that latency of each other,
// directly or through others, form a unit. The link of a unit into its level carries the maximum flow from its devices
// to the others of the level (minimum cut). Where the devices of a unit do not share on their way out, that is, where
// the flow from the unit is the sum of the flows from its devices, the level has rails. Devices are renumbered so that
// units are contiguous, in the order in which they were listed. O(devices · links) time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/fabric.h"

namespace nest::cluster {

inline constexpr std::size_t kGraphDevices = 1024;
inline constexpr std::size_t kGraphLinks = 16384;

struct GraphLink {
  std::size_t from = 0;  // vertices: devices first, then switches
  std::size_t to = 0;
  double bandwidth_bytes_per_s = 0;
  double latency_s = 0;
};

struct LinkGraph {
  std::size_t devices = 0;
  std::size_t switches = 0;
  std::vector<GraphLink> links;
};

struct DerivedLevels {
  std::vector<Level> levels;
  std::vector<std::size_t> order;  // device of the list that gets index 0, 1, …
};

// A device that no path leads to from the first one, or the number of devices when all are connected.
std::size_t first_disconnected(const LinkGraph& graph);

// At most kMaxLevels levels; nearby latencies are joined where there are more. The graph must be connected.
DerivedLevels derive_levels(const LinkGraph& graph);

}  // namespace nest::cluster
