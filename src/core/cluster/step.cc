#include "cluster/step.h"

#include <algorithm>

#include "base/checked.h"
#include "base/index.h"

namespace nest::cluster {
namespace {

// Groups on one lane of a level above the rail ports. Devices of one node belong to different lanes, so the groups of
// one node do not meet there; those of other nodes below the same uplink do.
std::int64_t groups_on_lane(const Fabric& fabric, const GroupLayout& layout, std::size_t l) {
  const std::int64_t in_node = std::max<std::int64_t>(1, layout.groups_inside[fabric.rail_level]);
  return ceil_div(layout.groups_inside[l], in_node);
}

std::int64_t climbing(const StepFlows& step, std::size_t l, std::size_t top) {
  const std::int64_t most = std::min(step.exits[l], step.exits[top]);
  return step.climbing ? std::min(most, (*step.climbing)[l][top]) : most;
}

double flows_on_lane(const Fabric& fabric, const GroupLayout& layout, const StepFlows& step, std::size_t l,
                     std::size_t top) {
  if (l == fabric.rail_level) return 1;
  const std::int64_t in_node = std::max<std::int64_t>(1, layout.inside[fabric.rail_level]);
  const std::int64_t nodes = ceil_div(layout.inside[l], in_node);
  std::int64_t flows = nodes;
  if (step.rings > 1) {
    flows = 1;
  } else if (step.keeps_lane) {
    flows = ceil_div(climbing(step, l, top), in_node);
  }
  return real(flows * groups_on_lane(fabric, layout, l));
}

// Level that flows which cross `top` really climb to: one more where they change lanes under rail switches.
std::size_t climb(const Fabric& fabric, const StepFlows& step, std::size_t top) {
  const bool forced = fabric.rail_switches && top == fabric.rail_level && !step.keeps_lane;
  return forced && top + 1 < fabric.levels ? top + 1 : top;
}

// Flows on the link of one pair in a full mesh. Groups share no pair. Of the flows of a unit's p members exits[1] leave it.
double flows_on_pair(const GroupLayout& layout, const StepFlows& step) {
  if (step.spread == 0) return real(step.exits[0]);
  const double leaving = layout.top > 0 ? real(step.exits[1]) / real(layout.inside[1]) : 0;
  return real(step.rings) * (real(step.exits[0]) - leaving) / real(step.spread);
}

// Whether a step has flows that stay in an innermost unit.
bool stays_inside(const GroupLayout& layout, const StepFlows& step) {
  return layout.top == 0 || step.exits[1] < layout.most[1];
}

// Flows of all groups on the busiest level-l uplink that climb to level `top` or higher.
double flows_on_link(const Fabric& fabric, const GroupLayout& layout, const StepFlows& step, std::size_t l,
                     std::size_t top) {
  if (fabric.full_mesh && l == 0) return flows_on_pair(layout, step);
  if (fabric.has_rails() && top >= fabric.rail_level && fabric.lanes(l))
    return flows_on_lane(fabric, layout, step, l, top);
  std::int64_t flows = climbing(step, l, top) * step.rings;
  // Where each device has a rail port, one of its rings leaves through that instead of the link inside the node.
  if (step.rings > 1 && fabric.has_rails() && l == 0 && top < fabric.rail_level && layout.top >= fabric.rail_level)
    --flows;
  return real(flows * layout.sharing[l][top]);
}

// The class of flows, by the level it crosses, that ends last; latencies count `latencies` times (1 or 0).
StepTime slowest_flows(const Fabric& fabric, const GroupLayout& layout, const StepFlows& step, double latencies) {
  StepTime slowest;
  for (std::size_t top = 0; top <= layout.top; ++top) {
    if (step.exits[top] == 0 || (fabric.full_mesh && top == 0 && !stays_inside(layout, step))) continue;
    const std::size_t highest = climb(fabric, step, top);
    StepTime time;
    time.latency_s = latencies * (fabric.latency_s[highest] + fabric.message_overhead_s);
    for (std::size_t l = fabric.first_link(top); l <= highest; ++l) {
      const double transfer_s = step.bytes * flows_on_link(fabric, layout, step, l, top) / fabric.capacity[l];
      if (transfer_s > time.transfer_s) {
        time.transfer_s = transfer_s;
        time.link = l;
      }
    }
    if (time.total() >= slowest.total()) slowest = time;
  }
  return slowest;
}

}  // namespace

StepTime step_time(const Fabric& fabric, const GroupLayout& layout, const StepFlows& step) {
  return slowest_flows(fabric, layout, step, 1);
}

StepTime stream_time(const Fabric& fabric, const GroupLayout& layout, const StepFlows& step) {
  return slowest_flows(fabric, layout, step, 0);
}

}  // namespace nest::cluster
