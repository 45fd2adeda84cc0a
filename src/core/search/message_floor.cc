#include "search/message_floor.h"

#include <algorithm>

#include "base/index.h"

namespace nest::search {

MessageFloor::MessageFloor(const cluster::Cluster& cluster) {
  if (cluster.torus) return;
  const cluster::Fabric& fabric = cluster.fabric;
  // With ports of their own, devices send to other nodes past their links inside the node.
  const double port = fabric.has_rails() ? 1 / fabric.capacity[fabric.rail_level] : 1 / fabric.capacity[0];
  double near = std::min(port, 1 / fabric.capacity[0]);
  if (fabric.full_mesh && fabric.levels > 1) near = std::min(near, 1 / fabric.capacity[1]);
  near_ = {fabric.latency_s[0] + fabric.message_overhead_s, near};
  leaving_ = crowded_ = near_;
  if (fabric.levels < 2 || !fabric.regular) return;
  unit_ = fabric.unit[1];
  leaving_.latency_s = crowded_.latency_s = fabric.latency_s[1] + fabric.message_overhead_s;
  const auto slope = [&](double sharing) {
    const double first = fabric.full_mesh ? 0 : 1 / fabric.capacity[0];  // what leaves a mesh uses none of its links
    const double own = std::max(first, sharing / fabric.capacity[1]);
    return fabric.has_rails() ? std::min(own, port) : own;
  };
  leaving_.s_per_byte = slope(1);
  crowded_.s_per_byte = slope(real(unit_));
}

LeastWaiting MessageFloor::waiting(std::int64_t stages, std::int64_t chunks, std::int64_t wraps,
                                   std::int64_t stage_devices, double cut_bytes, double wrap_bytes) const {
  const bool all_leave = unit_ > 0 && stage_devices >= unit_;
  const std::int64_t borders = unit_ > 0 ? (stages * stage_devices - 1) / unit_ : 0;
  const std::int64_t leave = all_leave ? stages - 1 : std::min(stages - 1, (borders + 1) / 2);
  const cost::CostLine& leaving = all_leave ? crowded_ : leaving_;
  const double v = real(chunks), hop = v * near_.at(cut_bytes), far = v * leaving.at(cut_bytes);
  LeastWaiting least;
  least.each_s = all_leave ? far : hop;
  least.sum_s = 2 * (real(stages - 1 - leave) * hop + real(leave) * far);
  least.wraps_s = 2 * real(wraps) * (borders > 0 ? leaving : near_).at(wrap_bytes);
  least.sum_s += least.wraps_s;
  return least;
}

}  // namespace nest::search
