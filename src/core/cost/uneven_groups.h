// Groups that lie unevenly in the units of a network: what a ring over them takes at least.
//
// Where units hold no whole numbers of what a strategy repeats, groups of a stage differ in how they lie, and so do stages.
// A ring of n ranks, or as many rings as the first node holds of them, pass (n - 1) / n of the bytes over every edge
// between neighbours; all groups of a stage do so at once. With c edges' worth of bytes that leave a unit through an
// uplink of capacity C, a byte takes (n - 1) / n c / C there: the most over all units and levels, of the way of ringing
// that has less, of the stage that has least. Latencies are left out.
// 0 where that is not known: tori, meshes, rails, other algorithms, more ranks than are looked at.
#pragma once

#include <array>

#include "cluster/cluster.h"
#include "groups/rank_groups.h"

namespace nest::cost {

// Seconds per byte of a buffer: alone on the network, and of the work of all uplinks of each level.
struct LeastSlope {
  double alone = 0;
  std::array<double, cluster::kMaxLevels> uplinks{};
};
struct LeastSlopes {
  bool known = false;
  LeastSlope shard, replicate;
};
LeastSlopes least_slopes(const cluster::Cluster& cluster, const groups::RankGroups& ranks, groups::Weights weights,
                         std::int64_t degree);

}  // namespace nest::cost
