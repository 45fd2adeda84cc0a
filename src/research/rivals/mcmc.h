// A random walk through the planner's space: FlexFlow's search, as TopoOpt uses it with the network in its cost.
//
// Metropolis: from a plan a neighbour is proposed; a faster one is taken, one that is slower by a factor f with
// probability f^(-1/T). T falls from one proposal to the next. Neighbours differ in one decision (split, micro-batch,
// stages, schedule, replicas, where replicas sit, one cut, what stages recompute and shard); what depends on it is
// mended: replicas fill the devices, cuts balance the stages. Plans that do not fit are walked through at a price that
// grows with what they lack. Ten walks, the first from pure data parallelism, the others from anywhere; a walk ends
// when the second half of its proposals brought nothing better, but not before it has had some hundreds per layer and
// doubling of the devices.
//
// Z. Jia, M. Zaharia, A. Aiken, Beyond Data and Model Parallelism for Deep Neural Networks, MLSys 2019;
// W. Wang et al., TopoOpt: Co-optimizing Network Topology and Parallelization Strategy, NSDI 2023.
#pragma once

#include "rivals/rival.h"

namespace nest::rivals {

RivalAnswer plan_mcmc(const RivalRequest& request);

}  // namespace nest::rivals
