#include "rivals/alpa_mesh.h"

#include <algorithm>

#include "base/index.h"
#include "cost/group_time.h"

namespace nest::rivals {
namespace {

constexpr double kMeasuredBytes = 64e6;

MeshAxis measure_axis(const cluster::Cluster& cluster, const Stride& members, const std::vector<Stride>& siblings) {
  MeshAxis axis;
  axis.size = members.count;
  if (axis.size < 2) return axis;
  const cluster::GroupLayout layout = cluster::place_group(cluster, {0, {members}, siblings});
  axis.latency_s = cost::group_collective_s(cluster, layout, cluster::Collective::all_gather, 1);
  const double seconds = cost::group_collective_s(cluster, layout, cluster::Collective::all_gather, kMeasuredBytes);
  const double share = real(axis.size - 1) / real(axis.size);
  axis.bytes_per_s = share * kMeasuredBytes / std::max(1e-12, seconds - axis.latency_s);
  return axis;
}

}  // namespace

LogicalMesh logical_mesh(const cluster::Cluster& cluster, std::int64_t x, std::int64_t y) {
  const Stride stages{x * y, std::max<std::int64_t>(1, cluster.devices / (x * y))};
  const Stride inner{1, y}, outer{y, x};
  return {measure_axis(cluster, outer, {inner, stages}), measure_axis(cluster, inner, {outer, stages})};
}

}  // namespace nest::rivals
