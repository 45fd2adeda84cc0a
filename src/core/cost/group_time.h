// Where the communicating groups of a strategy sit on the cluster, and how long their exchanges take.
//
// Collectives are those of cluster/collective.h. Unless the cluster names its algorithms, they are chosen as NCCL does
// it: rings (one or several side by side) for all-gather and reduce-scatter, rings or double trees for an all-reduce
// that leaves the innermost unit. A measured table of the cluster overrides all of this.
//
// All-to-all of routed tokens. A token goes to top_k experts on ep ranks that fill `nodes` innermost units. Every copy
// moves inside its node; into another node a token travels once, however many of its experts live there ("node dedup"),
// and is spread there:
//     t = bytes (ep-1)/ep / (0.47 C_0)
//       + max over the links l above of  bytes/top_k * hit_l * sharing_l / C_l
//       + 2us (ep-1) + 20us
// with hit_l = (nodes beyond link l) * (1 - (1 - 1/nodes)^top_k), the number of nodes there that a token reaches, and
// sharing_l the devices of all groups whose traffic passes one link l.
//
// Sharding groups are priced as lines, seconds = latency + bytes * slope, which a search can add up: frameworks
// exchange in calls of a known size, so that the latency of all calls but one becomes part of the slope.
#pragma once

#include <cstdint>

#include "cluster/cluster.h"
#include "groups/rank_groups.h"
#include "plan/plan.h"
#include "split/local_layer.h"

namespace nest::cost {

// Nothing for no bytes.
struct CostLine {
  double latency_s = 0;
  double s_per_byte = 0;

  double at(double bytes) const { return bytes <= 0 ? 0 : latency_s + bytes * s_per_byte; }
  bool operator==(const CostLine&) const = default;
};

double group_collective_s(const cluster::Cluster& cluster, const cluster::GroupLayout& layout,
                          cluster::Collective collective, double bytes);

// The groups inside one stage: tensor, context, expert ranks of a split, on every group of a = tp * cp * ep devices
// that fits on the cluster.
class StageGroups {
 public:
  StageGroups(const cluster::Cluster& cluster, const Split& split);

  double seconds(const split::LayerCollective& exchange, std::int64_t top_k) const;
  double all_to_all_s(const cluster::GroupLayout& layout, double bytes, std::int64_t top_k) const;

 private:
  const cluster::Cluster& cluster_;
  cluster::GroupLayout tensor_, context_, expert_;  // experts are tensor parallel over all tensor ranks or not at all
};

// Lines of one sharding group: `shard` one reduce-scatter or all-gather inside it, `replicate` half an all-reduce
// between the groups, both as functions of the unsharded bytes.
struct ShardLines {
  CostLine dense_shard, dense_replicate, expert_shard, expert_replicate;
  std::int64_t dense_degree = 1;
  std::int64_t expert_degree = 1;
};

// Degree 0: over all replicas; else one that can_shard.
ShardLines shard_lines(const cluster::Cluster& cluster, const Strategy& strategy, std::int64_t degree);

// A message from every device of stage `from` to its counterpart in stage `to`, for the worst replica.
CostLine message_line(const cluster::Cluster& cluster, const Strategy& strategy, std::int64_t from, std::int64_t to);

}  // namespace nest::cost
