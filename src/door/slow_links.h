// Where plans that the formula prices alike may take different times when they are executed.
#pragma once

#include "cluster/cluster.h"
#include "nest/plan.h"

namespace nest {

// Whether devices share links that are slower than all of them together. (Torus links are not counted: no law bounds
// what is exchanged over them.)
bool has_shared_links(const cluster::Cluster& cluster);

// Whether a plan waits for exchanges over a torus so much that others could be faster.
bool waits_on_torus(const cluster::Cluster& cluster, const Prediction& prediction);

}  // namespace nest
