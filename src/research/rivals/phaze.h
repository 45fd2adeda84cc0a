// Phaze (Wang, Tarnawski, Phanishayee, Mahajan, "Integrated Hardware Architecture and Device Placement Search", ICML
// 2024), whose device placement is Piper's (Tarnawski, Narayanan, Phanishayee, "Piper: Multidimensional Planner for DNN
// Parallelization", NeurIPS 2021): an exact dynamic program over stages, their tensor parallelism, replicas and
// recomputation within memory, on a network of one bandwidth.
//
// Here: the exact search of search/planner.h on the cluster with all its devices at one switch, once over the
// dimensions that were published (no context parallelism, whole stages) and once over all that our plans have. Where
// replicas sit, pipelines that start on node boundaries and sharding inside nodes mean nothing there. Its best plan
// (all of them where several tie) is placed in the two rank orders that frameworks know, pipelines together and
// replicas together, and priced on the real network; the next ones only where none of those can be realised. A flat
// planner needs one bandwidth, and the publications leave it open which: every number that simple_network.h finds is
// tried, and the fastest answer kept.
#pragma once

#include "rivals/rival.h"

namespace nest::rivals {

RivalAnswer plan_phaze(const RivalRequest& request);

}  // namespace nest::rivals
