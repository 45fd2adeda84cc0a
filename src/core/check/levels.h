// Which level of the network every stage boundary and every group of a plan crosses, from the levels' sizes and the
// ranks' devices alone.
//
// Levels count from 0, the innermost. Two devices meet at level l when no smaller unit holds both. On a torus the
// distance in hops stands in for the level.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "plan/plan.h"

namespace nest::check {

struct Crossing {
  std::int64_t least = 0;  // over all replicas and ranks: level, or hops on a torus
  std::int64_t most = 0;

  bool operator==(const Crossing&) const = default;
};

struct BoundaryCrossing {
  std::int64_t from = 0;  // stages; the last to the first where chunks interleave
  std::int64_t to = 0;
  Crossing crossing;

  bool operator==(const BoundaryCrossing&) const = default;
};

struct GroupCrossing {
  std::string group;  // "tensor", "context", "expert", "data"
  std::int64_t size = 1;
  Crossing crossing;  // between the group's first and last rank; on a torus between neighbours in rank order

  bool operator==(const GroupCrossing&) const = default;
};

struct LevelsCrossed {
  std::vector<BoundaryCrossing> boundaries;
  std::vector<GroupCrossing> groups;  // those with more than one member
};

// The placement must be sound: no device twice, none beyond the cluster.
LevelsCrossed levels_crossed(const Strategy& strategy, const cluster::Cluster& cluster);
// Those between stages alone.
std::vector<BoundaryCrossing> boundaries_crossed(const Strategy& strategy, const cluster::Cluster& cluster);

// "node", "node … rack", "1 … 3 hops".
std::string crossing_name(const cluster::Cluster& cluster, const Crossing& crossing);

// The least seconds that a message of so many bytes takes between devices that meet there, with every link to itself.
double least_message_s(const cluster::Cluster& cluster, std::int64_t crossing, double bytes);

}  // namespace nest::check
