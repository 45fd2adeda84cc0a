// The network as Alpa sees it: a logical mesh of two axes, each with one bandwidth.
//
// The devices of a stage, n in a row, are viewed as x * y = n: neighbours along axis 1, every y-th device along axis 0.
// The bandwidth of an axis is what a collective on the real network sustains along it while all other rows (columns)
// and all other stages do the same; Alpa measures it, we ask the cluster. With k devices along an axis:
//     all-gather, reduce-scatter  a + (k-1)/k   bytes / bandwidth
//     all-reduce                  a + 2 (k-1)/k bytes / bandwidth
//     all-to-all                  a + (k-1)/k^2 bytes / bandwidth
// where `bytes` is the whole tensor along this axis.
#pragma once

#include <array>
#include <cstdint>

#include "base/index.h"
#include "cluster/cluster.h"

namespace nest::rivals {

struct MeshAxis {
  std::int64_t size = 1;
  double latency_s = 0;
  double bytes_per_s = 1;

  double all_gather_s(double bytes) const { return seconds(bytes, 1); }
  double reduce_scatter_s(double bytes) const { return seconds(bytes, 1); }
  double all_reduce_s(double bytes) const { return seconds(bytes, 2); }
  double all_to_all_s(double bytes) const { return seconds(bytes, 1 / real(size)); }

 private:
  double seconds(double bytes, double passes) const {
    if (size < 2) return 0;
    const double share = real(size - 1) / real(size);
    return latency_s + passes * share * bytes / bytes_per_s;
  }
};

using LogicalMesh = std::array<MeshAxis, 2>;  // outer, inner

// x * y is at most the cluster's devices.
LogicalMesh logical_mesh(const cluster::Cluster& cluster, std::int64_t x, std::int64_t y);

}  // namespace nest::rivals
