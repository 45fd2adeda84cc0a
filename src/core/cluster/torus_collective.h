// How long a collective takes on a torus or mesh (see torus.h for the network, collective.h for the byte conventions).
//
// A ring over the extent e of one dimension, every t-th device, g such groups interleaved on a link of capacity C:
//     step(b) = h·a + o + b·g/C,   h = t when the dimension is closed, else (e−1)·t for the message back
// with o the torus's overhead per message.
//   ring              one ring through the whole box: along the line when it has one dimension, else a closed path of
//                     neighbours (one exists when an extent is even; otherwise one step of the path is longer)
//   hierarchical      ring reduce-scatter on each dimension in turn, then all-gather back; D_i = Π_{j<i} e_j:
//                     Σ_i 2(e_i−1) · step(m/(D_i·e_i))
//   multi_ring        the same in k parts of m/k that start in different dimensions and, where all are closed, run in
//                     both directions, so that k links of every device are used at once
//   halving_doubling  partner at distance δ in a dimension: δ·t hops, δ·g flows on a link
//   tree              streamed along the dimensions: Σ t_i·e_i/2 hops each way where closed, t_i·e_i where not
//   direct            all-to-all: max over h of [ h·a + m/n · F_h / C ], F_h the flows on the busiest link that travel
//                     h hops or more
//   pairwise          all-to-all in n−1 steps; O(n)
#pragma once

#include <optional>

#include "cluster/collective.h"
#include "cluster/torus.h"

namespace nest::cluster {

std::optional<CollectiveTime> torus_algorithm_time(const Torus& torus, const TorusPlace& place, Collective collective,
                                                   double bytes, Algorithm algorithm);

CollectiveTime torus_best_time(const Torus& torus, const TorusPlace& place, Collective collective, double bytes,
                               AlgorithmSet allowed = AlgorithmSet::all());

// All-reduce, all-gather or reduce-scatter dimension by dimension in `rotations` parts that start in different
// dimensions, each split again over `directions` (1 or 2). Nothing when that many are not possible.
std::optional<CollectiveTime> torus_dimension_rings(const Torus& torus, const TorusPlace& place, Collective collective,
                                                    double bytes, std::size_t rotations, std::size_t directions);

}  // namespace nest::cluster
