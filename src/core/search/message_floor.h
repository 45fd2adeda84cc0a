// What the stages of a pipeline wait for messages at least, wherever its replicas stand.
//
// A message takes a latency and bytes / rate of the slowest link on its way, alone on it. Pipelines occupy neighbouring
// devices, stages of b or more of them each, and one begins where the first unit of U devices does: if p b > U, the
// units' borders lie in (p b - 1) / U places inside it. What passes such a place leaves the unit, and a stage hands
// over to the next past two of them at most where stages are smaller than units: at least half as many of the p - 1
// messages, and the one from the last stage to the first, leave their unit. Stages of U devices always do.
#pragma once

#include <cstdint>

#include "cluster/cluster.h"
#include "cost/group_time.h"

namespace nest::search {

// Seconds per micro-batch, if nothing hid them.
struct LeastWaiting {
  double each_s = 0;   // of every stage
  double sum_s = 0;    // of all stages together
  double wraps_s = 0;  // of that, for messages from the last stage to the first
};

class MessageFloor {
 public:
  explicit MessageFloor(const cluster::Cluster& cluster);

  // Pipelines of p > 1 stages with v chunks and at least so many devices each; `wrap_bytes` from last to first, so many
  // times.
  LeastWaiting waiting(std::int64_t stages, std::int64_t chunks, std::int64_t wraps, std::int64_t stage_devices,
                       double cut_bytes, double wrap_bytes) const;

 private:
  cost::CostLine near_;     // any message
  cost::CostLine leaving_;  // one that leaves an innermost unit
  cost::CostLine crowded_;  // one of the messages of a whole unit's devices that do
  std::int64_t unit_ = 0;   // 0: nothing is known of what leaves it
};

}  // namespace nest::search
