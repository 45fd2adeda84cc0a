// Mist (Zhu et al., "Mist: Efficient Distributed Training of Large Language Models via Memory-Parallelism
// Co-Optimization", EuroSys 2025): tunes in two steps. Inside a stage, data and tensor parallelism, ZeRO and
// recomputation give points of time and memory; between stages, micro-batches, uneven layers and one point for every
// stage are chosen so that the pipeline is fastest, within memory.
//
// Here: every legal tp (with and without sp), micro-batch and number of stages, with the replicas that fill the
// cluster; per stage recomputation none, selective or full and ZeRO 0 to 3 over all replicas; layers in any numbers;
// 1F1B. The outer problem, a mixed-integer program in the publication, is solved exactly (partition.h). Because plans
// have one split for all stages, stages do not differ in (dp, tp). Offloading is not part of our plans. Mist was
// published for dense models; on mixtures of experts it is given expert parallelism too.
//
// Its network has one bandwidth inside nodes and one between them (simple_network.h: all readings are tried), and it
// does not choose places: replicas of a stage sit together, as frameworks put them.
#pragma once

#include <vector>

#include "rivals/rival.h"
#include "search/space.h"

namespace nest::rivals {

RivalAnswer plan_mist(const RivalRequest& request);

// What Mist admits of a request.
plan::PlanLimits mist_limits(const plan::PlanLimits& limits);

// Everything that it chooses from but cuts and stages' options. The space has mist_limits().
std::vector<Strategy> mist_strategies(const search::PlanSpace& space);

}  // namespace nest::rivals
