#include "door/slow_links.h"

#include "base/index.h"

namespace nest {
namespace {

constexpr double kWaits = 0.05;  // of a step, from which on exchanges over a torus may decide

}  // namespace

bool has_shared_links(const cluster::Cluster& cluster) {
  const cluster::Fabric& fabric = cluster.fabric;
  if (cluster.torus) return false;
  constexpr double kSlower = 0.9;
  double each = fabric.inside_rate(fabric.unit[1]);  // of a device, where all send
  for (std::size_t l = 1; l < fabric.levels; ++l) {
    const double links = fabric.lanes(l) ? real(fabric.unit[fabric.rail_level]) : 1;
    const double share = fabric.capacity[l] * links / real(fabric.unit[l]);
    const bool own = fabric.lanes(l) && fabric.unit[l] == fabric.unit[fabric.rail_level];
    if (!own && share < kSlower * each) return true;
    each = share;
  }
  return false;
}

bool waits_on_torus(const cluster::Cluster& cluster, const Prediction& prediction) {
  const Prediction::Breakdown& parts = prediction.breakdown_s;
  return cluster.torus && parts.p2p + parts.zero + parts.grad_sync + parts.ep > kWaits * prediction.iteration_s;
}

}  // namespace nest
