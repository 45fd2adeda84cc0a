// One step of a collective on a fabric: the rule of collective.h with rails and lanes written out. Internal to the
// folder.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "cluster/fabric.h"
#include "cluster/layout.h"

namespace nest::cluster {

// What one group sends in one step.
struct StepFlows {
  PerLevel exits{};  // flows that leave one level-l unit; 0: the step does not cross level l
  // Of those, the flows that climb to level L or higher, as climbing[l][L]; where not known, at most min(exits[l],
  // exits[L]).
  std::optional<std::array<PerLevel, kMaxLevels>> climbing;
  double bytes = 0;        // of one flow
  bool keeps_lane = true;  // flows between nodes end at the device position they started from
  std::int64_t rings = 1;  // side by side, each leaving a node through another device
  // In a full mesh: links over which a device spreads evenly what stays in its unit; 0: each flow has one link to itself.
  std::int64_t spread = 0;
};

struct StepTime {
  double latency_s = 0;
  double transfer_s = 0;
  std::size_t link = 0;  // level of the slowest link

  double total() const { return latency_s + transfer_s; }
};

StepTime step_time(const Fabric& fabric, const GroupLayout& layout, const StepFlows& step);

// The same for a stream that has long begun: without latencies, the slowest link.
StepTime stream_time(const Fabric& fabric, const GroupLayout& layout, const StepFlows& step);

}  // namespace nest::cluster
