// Where the communicating groups of a strategy sit on the cluster, and how long their exchanges take.
//
// Collectives are those of cluster/collective.h. Unless the cluster names its algorithms, they are chosen as NCCL does
// it: rings (one or several side by side) for all-gather and reduce-scatter, rings or double trees for an all-reduce
// that leaves the innermost unit. A measured table of the cluster overrides all of this.
//
// Routed tokens travel as cost/dispatch.h says. A link of level l > 0 is shared by the devices of all groups whose
// traffic passes it, and carries what they send to the units beyond it.
//
// Sharding groups are priced as lines, seconds = latency + bytes * slope, which a search can add up: frameworks
// exchange in calls of a known size c. A call takes f(c), the maximum over the classes of flows (inside a node, across
// nodes, …) of latency_k + c slope_k; the classes that decide differ with c, so f is evaluated at the c that is sent:
//     slope = f(c) / c        latency = max over k of latency_k, of the first call
//
// By the least law (schedule/step_time.h) no other stage and no other team uses the links, a message is that of the
// replica which is best placed (with those that lie alike, and send at the same time), and groups exchange at the slope
// of their slowest link, or of the calls that they make. Nothing takes time on a torus, where routes are simpler than those that are executed, nor
// among sharding groups that lie unevenly on the network.
#pragma once

#include <cstdint>
#include <optional>

#include "cluster/cluster.h"
#include "cost/dispatch.h"
#include "cost/sharding_traffic.h"
#include "cost/uneven_groups.h"
#include "groups/rank_groups.h"
#include "plan/plan.h"
#include "schedule/step_time.h"
#include "split/local_layer.h"

namespace nest::cost {

// Nothing for no bytes.
struct CostLine {
  double latency_s = 0;
  double s_per_byte = 0;

  double at(double bytes) const { return bytes <= 0 ? 0 : latency_s + bytes * s_per_byte; }
  bool operator==(const CostLine&) const = default;
};

// By the algorithm that the library takes for so many bytes.
cluster::CollectiveTime group_collective(const cluster::Cluster& cluster, const cluster::GroupLayout& layout,
                                         cluster::Collective collective, double bytes);
double group_collective_s(const cluster::Cluster& cluster, const cluster::GroupLayout& layout,
                          cluster::Collective collective, double bytes);

// What one exchange of routed tokens puts on the network, per rank and direction.
struct RoutedTraffic {
  bool forwards = false;      // a copy per unit, which sends one per rank on
  double ranks_inside = 1;    // of the group, in one innermost unit
  double units = 1;           // that it spans
  double inside_bytes = 0;    // to the other ranks of its innermost unit together
  double unit_bytes = 0;      // to each other unit
  double gathered_bytes = 0;  // instead: of the whole buffer of an all-gather, or of a reduce-scatter on the way home
  bool home = false;
  // Of the links' capacity, what the software reaches inside the unit and beyond it.
  double inside_share = 1, beyond_share = 1;
  double latency_s = 0;
};

// The groups inside one stage: tensor, context, expert and experts' tensor ranks of a split, on every team of replicas
// that holds whole sets of experts (Split::team) and fits on the cluster.
class StageGroups {
 public:
  // By the least law experts' groups are alone; the others are a part of compute, which is executed as priced.
  StageGroups(const cluster::Cluster& cluster, const Split& split, const DispatchRule& rule = {},
              schedule::Law law = schedule::Law::formula);

  // `local` is the layer that the exchange is of.
  double seconds(const split::LocalLayer& local, const split::LayerCollective& exchange) const;
  // Of rows on their way to their experts and back: `bytes` of copies of tokens leave a rank (K T h e), each row of
  // `row_bytes`. `home`: on the way back.
  double dispatch_s(const Choice& choice, double bytes, double row_bytes, bool home) const;
  // What dispatch_s() is the time of, for an all-to-all of a layer. On a torus, and where all-to-alls were measured, only
  // the time is known, and nothing is said.
  std::optional<RoutedTraffic> routed_traffic(const split::LocalLayer& local,
                                              const split::LayerCollective& exchange) const;
  // Among whom.
  groups::Kind routed_kind() const { return spans_tensor() ? groups::Kind::tensor_expert : groups::Kind::expert; }
  // Whether routed tokens leave the innermost unit.
  bool dispatch_crosses() const { return routed().top > 0; }

 private:
  const cluster::GroupLayout& layout_of(const split::LayerCollective& exchange) const;
  // The ranks among which tokens are dispatched.
  const cluster::GroupLayout& routed() const { return spans_tensor() ? tensor_expert_ : expert_; }
  bool spans_tensor() const { return tensor_expert_.members > 1; }
  std::int64_t routed_inside() const;  // ranks of routed() in one innermost unit
  // Of a link of this level; of the innermost, what a rank has towards the others of routed() in its unit.
  double rate_at(std::size_t level) const;
  double link_rate(std::size_t level, double share, double usual) const;
  // Bytes per second of a link of this level, and what passes before the first arrive.
  double routed_rate(std::size_t level) const;
  double routed_latency_s() const;
  double sharing(const cluster::GroupLayout& layout, std::size_t level) const;
  // That adding up so many copies at home takes.
  double summing_s(double copies, double row_bytes, bool home) const;
  double gathered_bytes(const Choice& choice, double token_bytes, double row_bytes, bool home) const;
  // NCCL's all-to-all, of which `bytes` leave a rank: the whole of it, and what the links take.
  double library_all_to_all_s(const cluster::GroupLayout& layout, double bytes) const;
  double all_to_all_s(const cluster::GroupLayout& layout, double bytes) const;
  double forwarded_s(const cluster::GroupLayout& layout, const Choice& choice, double tokens, double row_bytes,
                     bool home) const;

  const cluster::Cluster& cluster_;
  Split split_;
  DispatchRule rule_;
  cluster::GroupLayout tensor_, context_, expert_, expert_tensor_;
  cluster::GroupLayout context_heads_, context_ring_;  // the context ranks, or parts of them (Split::cp_inner)
  cluster::GroupLayout tensor_expert_;                 // placed where the dispatcher spans it and ETP > 1
};

// Where the sharding groups of a stage sit: those inside which state is divided, and those between them.
struct ShardGroups {
  cluster::GroupLayout dense_shard, dense_replicate, expert_shard, expert_replicate;
  std::int64_t dense_degree = 1;
  std::int64_t expert_degree = 1;
  groups::ZeroDegrees replicas{1, 1};  // of all groups together
  // By the least law, where groups lie unevenly and the layouts are left empty.
  LeastSlopes dense_least, expert_least;
};

// Degree 0: over all replicas; else one that can_shard.
ShardGroups shard_groups(const cluster::Cluster& cluster, const Strategy& strategy, std::int64_t degree,
                         schedule::Law law = schedule::Law::formula);

// Of one call, unsharded.
struct CallBytes {
  double dense = 0;
  double expert = 0;
};

// Lines of the sharding groups: `shard` one reduce-scatter or all-gather inside them in such calls, `replicate` half an
// all-reduce between them in one large call, at most (its slowest latency, its slowest link), both as functions of the
// unsharded bytes.
constexpr double kLargeCallBytes = 256e6;  // for which its algorithm is chosen
struct ShardLines {
  CostLine dense_shard, dense_replicate, expert_shard, expert_replicate;
  std::int64_t dense_degree = 1;
  std::int64_t expert_degree = 1;
  CallBytes calls;
  groups::ZeroDegrees replicas{1, 1};  // of all groups together

  // Ranks over which the optimizer's state is divided, by sharding_row().
  groups::ZeroDegrees updated(int row) const {
    if (row == 0) return {1, 1};
    return row == kHybridRow ? replicas : groups::ZeroDegrees{dense_degree, expert_degree};
  }
};
ShardLines shard_lines(const cluster::Cluster& cluster, const ShardGroups& groups, const CallBytes& calls,
                       schedule::Law law = schedule::Law::formula);

// A message from every device of stage `from` to its counterpart in stage `to`, for the worst replica.
CostLine message_line(const cluster::Cluster& cluster, const Strategy& strategy, std::int64_t from, std::int64_t to,
                      schedule::Law law = schedule::Law::formula);

}  // namespace nest::cost
