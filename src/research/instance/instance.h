// A layer-profile instance: the input of the published NEST artifact's solver, in its own units, and what a plan for it
// is.
//
// For each tensor width t the file holds a graph of layers with their sizes and measured times at that width. A plan
// picks one width t, d replicas, and cuts the layers (in topological order) into S contiguous stages; every stage of
// every replica uses a = t * ep * cp devices, so S * a * d <= K. Stages are counted from the END: s = 1 is the last.
// The last stage sits on the devices 0 … a-1, the one before it on a … 2a-1, and so on.
//
// Devices form groups: g0 of them a level-0 group, g1 of those a level-1 group, … . lev(x, y) is the smallest i such
// that x and y are in one level-i group.
//
//   hop_i(c)   = c / B_0 + lat_0 for i = 0, else 2 (c / B_i + lat_i), with B_i = min(bw_0 … bw_i)
//   forward    nodes in order; each starts at max(end of the one before, hop_i of every edge that enters the stage at
//              it) and takes its forward time; i = level of the link to the stage before, 0 for the first stage
//   backward   nodes in reverse; each starts at max(end of the one before, hop_j of every edge that leaves the stage at
//              it) and takes its backward time; j = level of the link to the stage after, 0 for the last stage
//   recompute  where the instance says so and s > 1, no node's backward starts before R = sum of the stage's backward
//              times
//   load       = end of forward + end of backward
//   memory     = 2 P + (Adam ? 6 P : 0) + A + (s - 1) stash <= M, with P, A the sums of parameters and activations, and
//              stash = bytes of the edges that enter the stage with recomputation, else A
//   sync       T = sum over i < floor(log2 d) of (lat_0 + P1 / 2^i / bw_0); low = 0;
//              then for l = 1 … q: T += 2 (lat_l + P1 / bw_l) + low; low += T
//              with P1 = P of the first stage, and q the highest of lev(0, x), lev(0, 2x), …, lev(0, (d-1) x), x = S a
//   objective  = max load * (ceil(m / d) + S - 1) + T
//
// Bytes are whole numbers whose total is bounded, so sums of bytes are exact in any order. Times are doubles, added in
// the order written above. Units are the file's own: `_s` stands for whatever its times are in.
#pragma once

#include <cstdint>
#include <vector>

namespace nest::instance {

struct ProfileNode {
  std::int64_t id = 0;  // as in the file; may be negative
  std::int64_t parameter_bytes = 0;
  std::int64_t activation_bytes = 0;
  double forward_s = 0;
  double backward_s = 0;
  bool operator==(const ProfileNode&) const = default;
};

// Between positions in ProfileGraph::nodes; source < destination.
struct ProfileEdge {
  int source = 0;
  int destination = 0;
  std::int64_t bytes = 0;
  bool operator==(const ProfileEdge&) const = default;
};

struct ProfileGraph {
  std::int64_t width = 1;          // t
  std::vector<ProfileNode> nodes;  // in topological order, at least one
  std::vector<ProfileEdge> edges;  // in the file's order
  bool operator==(const ProfileGraph&) const = default;
};

struct ProfileLevel {
  std::int64_t group = 1;  // members of the level below (devices, at level 0) in one group of this level
  double bandwidth_bytes_per_s = 1;
  double latency_s = 0;
  bool operator==(const ProfileLevel&) const = default;
};

enum class ProfileOptimizer : std::uint8_t { sgd, adam };

struct ProfileInstance {
  std::int64_t devices = 1;              // K; at most the product of the groups
  std::vector<ProfileLevel> levels;      // innermost first, at least one
  std::int64_t device_memory_bytes = 0;  // M
  std::int64_t micro_batches = 1;        // m
  bool recompute = false;
  ProfileOptimizer optimizer = ProfileOptimizer::sgd;
  std::int64_t expert_degree = 1;
  std::int64_t context_degree = 1;
  std::vector<ProfileGraph> graphs;  // by ascending width, at least one

  // a: devices of one stage of one replica.
  std::int64_t stage_devices(const ProfileGraph& graph) const { return graph.width * expert_degree * context_degree; }
  bool operator==(const ProfileInstance&) const = default;
};

struct ProfilePlan {
  std::int64_t width = 1;     // t
  std::int64_t replicas = 1;  // d
  std::vector<int> cuts;      // position of the first node of each stage, front to back; the first is 0
  bool operator==(const ProfilePlan&) const = default;
};

}  // namespace nest::instance
