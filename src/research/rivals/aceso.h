// Aceso: find what holds a plan back, and change that.
//
// From a start (a number of stages, a tensor-parallel degree, layers and devices spread evenly) the bottleneck is
// named: the stage that lacks most memory or, when all fit, the slowest one, and the resource that it spends most of
// (arithmetic, communication, memory). Only changes that relieve this resource of this stage are looked at: layers to a
// neighbour or to the idlest stage, tensor against data parallelism, the micro-batch, recomputation, sharding. When no
// single change makes the plan faster, further ones follow on top of it, up to kMostHops; the first sequence that does
// is taken, and the search goes on from there. When the slowest stage gives nothing, the second slowest is asked.
//
// Beyond the publication it may interleave stages and shard state, as others here may. Ranks stand in either order that
// frameworks know.
//
// Restrictions. Our plans have one split for all stages, so a change of degrees is one of the whole plan. Starts: all
// numbers of stages up to 8, then in steps of about a quarter and powers of two; tensor parallelism of 1, half a node
// and a node, each as near as the limits admit; one plan per kind of schedule (1F1B, GPipe, interleaved), the first
// admitted number of chunks and the smallest admitted micro-batch: other ones are reached by changes. Of every plan at
// most 6 branches are followed, one bottleneck may price 1,200 plans and one start 20,000; three stages are asked
// before a start is given up.
//
// G. Liu et al., Aceso: Efficient Parallel DNN Training through Iterative Bottleneck Alleviation, EuroSys 2024.
#pragma once

#include "rivals/rival.h"

namespace nest::rivals {

RivalAnswer plan_aceso(const RivalRequest& request);

}  // namespace nest::rivals
