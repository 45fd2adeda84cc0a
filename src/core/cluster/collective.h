// How long a collective takes on a hierarchical fabric: pure functions of a fabric, a layout and a number of bytes.
//
// m bytes, n members, chunk m/n. Bytes count as in NCCL's tests: all-reduce the buffer of one rank, all-gather the
// gathered output, reduce-scatter the input, all-to-all the send buffer of one rank, broadcast and send/recv the
// message. Reduction arithmetic costs nothing here; a group of one takes no time.
//
// One step, in which e_l flows of b bytes of each group leave every level-l unit, lasts as long as its slowest link:
//     step(b, e) = max over the levels L that it crosses of [ a_L + b · max_{l<=L} min(e_l, e_L) · g_{l,L} / C_l ]
// where a_L is the level's latency and the fabric's overhead per message (in `direct` n−1 of these).
// With rails the uplinks below level r carry only what stays in the node, the ports at r carry one flow each, and lanes
// share as written in fabric.h. The algorithms:
//   ring              e_l = 1; 2(n−1) steps of m/n for all-reduce, n−1 for all-gather and reduce-scatter.
//                     Broadcast: a chain through which the message is streamed: the latencies of its hops, plus m over
//                     the slowest link
//   multi_ring        k rings, k the members of one node, each of m/k, that leave the node through different ports
//   hierarchical      ring reduce-scatter on each dimension d_i in turn, then ring all-gather back; D_i = Π_{j<i} d_j:
//                     Σ_i 2(d_i−1) · step(m/(D_i·d_i), e_l = min(p_l, D_i))
//   halving_doubling  n a power of two, nearest first: Σ_k 2 · step(m/2^(k+1), e_l), e_l the members of a unit whose
//                     partner, 2^k ranks away, is outside
//   tree              two binary trees across nodes, chains inside, streamed: the latencies up and down, plus 2m over
//                     the slowest link (broadcast: down only, m)
//   direct            all-to-all, every message at once: max over L of [ a_L + m/n · max_{l<=L} p_l·(n−p_L)·g_l/C_l ];
//                     send/recv: one message
//   pairwise          all-to-all in n−1 steps, rank i to rank i+k; O(n)
// In a full mesh (fabric.h) a flow inside a unit has the link of its pair to itself. multi_ring is there, for a group inside
// one unit, rings over all links: by symmetry the (n−1)! rings through n devices load every directed link alike, so a step
// of m/n takes a_0 + m/n / ((n−1) C_0). Across units each of the k rings is a path through the k members of a unit, and
// one flow of m/(n k) is on every link. Hierarchies spread over the d_i − 1 links of a dimension inside a unit.
// Rings, hierarchies, halving-doubling and exchanges are exact for lockstep groups on trees; docs/collectives.md says
// what that was checked against.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cluster/algorithms.h"
#include "cluster/fabric.h"
#include "cluster/layout.h"

namespace nest::cluster {

struct CollectiveTime {
  double seconds = 0;
  double latency_s = 0;    // part that remains at 0 bytes
  double bandwidth_s = 0;  // the rest
  Algorithm algorithm = Algorithm::direct;
  std::size_t bottleneck = 0;  // level (torus: dimension) of the link that limits the largest part
};

// Time by one algorithm, or nothing when it does not apply to this collective or layout.
std::optional<CollectiveTime> algorithm_time(const Fabric& fabric, const GroupLayout& layout, Collective collective,
                                             double bytes, Algorithm algorithm);

// The fastest of the allowed algorithms that apply (ties: the first in the order of the enumeration). Where none is
// allowed that applies, all are tried. Pairwise all-to-all is no faster than direct and not tried.
CollectiveTime best_time(const Fabric& fabric, const GroupLayout& layout, Collective collective, double bytes,
                         AlgorithmSet allowed = AlgorithmSet::all());

// Hierarchical all-reduce, all-gather or reduce-scatter over given dimensions (innermost first, their product n).
std::optional<CollectiveTime> hierarchical_time(const Fabric& fabric, const GroupLayout& layout, Collective collective,
                                                double bytes, std::span<const std::int64_t> dims);

}  // namespace nest::cluster
