// How routed tokens reach their experts and come back: who sends how much to whom.
//
// A token chooses K of E experts, which EP ranks hold in equal parts, ETP ranks each part; n innermost units (nodes,
// NVLink domains) hold `per` of the group's ranks each. T tokens of h elements of e bytes leave one rank. With D(g) the
// expected number of g equal parts of the experts that a token reaches (distinct_parts), one direction sends, per rank:
//
//     dispatcher   group    inside a unit                     between units
//     alltoall     EP       K T h e (per - 1) / EP            K T h e (n - 1) / n           a copy per expert
//     allgather    ETP EP   all-gather of T h e and of 5 E bytes per token (map, probabilities) from every rank; back,
//                           reduce-scatter of the same rows in the router's 32 bits
//     deepep       ETP EP   ETP D(EP) T h e (per - 1) / per   D(n) T h e (n - 1) / n        a copy per rank, per unit
//     hybridep, ncclep      as deepep
//
// alltoall gathers the rows of ETP ranks and scatters them in exchanges of their own (split/local_layer.h); the others
// bring every rank of ETP its rows at once. Seconds, C_l the capacity of a link of level l:
//
//     alltoall     max over levels of bytes_l / C_l, at level 0 bytes_0 / (0.47 C_0); + 2 us (EP - 1) + 20 us
//     allgather    as the cluster's collectives
//     the others   max(inside / (η_l C_0), between / (η_n C_l)) + 20 us + 2 us log2(ETP EP): copies are forwarded while
//                  others arrive. They permute rows in the same call, so that this time is the exchange's too
//     hybridep, on the way back: at least ETP D(EP) T (0.78 us + h e / 15.3 GB/s) / (2 multiprocessors): pipelines, two
//                  per multiprocessor, sum up a token's copies one after the other
//
// η are shares of the data sheet's bandwidth, so they replace the efficiency of the cluster's file; where that is below
// those of the systems on which η were measured (0.788 inside, 0.647 between), the network is worse than theirs and η
// falls in proportion. On a torus, and for measured all-to-alls, every dispatcher costs what cluster/collective.h says.
#pragma once

#include <cstdint>

#include "model/graph.h"

namespace nest::cost {

enum class Dispatcher : std::uint8_t { alltoall, allgather, deepep, hybridep, ncclep };

struct DispatcherFacts {
  // Ranks of ETP get their rows in the same exchange, which spans ETP·EP ranks.
  bool spans_tensor = false;
  // One copy per rank and per unit instead of one per expert; forwarded as they arrive.
  bool forwards = false;
  // On the way back, pipelines sum up one copy after the other.
  bool sums_copies = false;
  int multiprocessors = 0;  // that it keeps busy unless told
  double link = 0;          // η_l
  double network = 0;       // η_n
};
const DispatcherFacts& facts_of(Dispatcher dispatcher);
const char* to_string(Dispatcher dispatcher);

// What a stack says about it.
struct DispatchRule {
  Dispatcher dispatcher = Dispatcher::alltoall;
  int multiprocessors = 0;  // 0: the dispatcher's own number

  bool operator==(const DispatchRule&) const = default;
  int busy() const { return multiprocessors > 0 ? multiprocessors : facts_of(dispatcher).multiprocessors; }
};

// How a layer's tokens choose.
struct Choice {
  std::int64_t experts = 1;
  std::int64_t top_k = 1;
  std::int64_t groups = 1;  // a token's experts lie in `top_groups` of so many groups of experts
  std::int64_t top_groups = 1;
};
Choice choice_of(const model::Layer& layer);

// D(g): how many of g equal parts of the experts hold at least one of a token's, which are chosen uniformly and all
// different. With groups (G, of which M are chosen, uniformly too) and γ = G/g groups per part
//     D = g Σ_j C(γ,j) C(G-γ,M-j) / C(G,M) · (1 - C((M-j) E/G, K) / C(M E/G, K))
// where g divides G; where G divides g, a part lies in one group and is reached only if that is chosen. Otherwise
// groups are left out of account, which is an upper bound. A part need not be a whole number of experts.
double distinct_parts(const Choice& choice, double parts);

}  // namespace nest::cost
