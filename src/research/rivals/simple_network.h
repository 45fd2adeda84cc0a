// A cluster as planners see it that know less of the network than it has: one bandwidth for all, or one inside nodes
// and one between them.
//
// Such a planner takes one number where the network has several, and which one is left to whoever uses it. Level l of
// the network offers two: the capacity of one link, and what a device (or a node) gets of it when all below it send.
// Every such number is one simple network; the first is that of the innermost level. Times of collectives that were
// measured on the cluster hold on its own network alone: a simple one has none.
#pragma once

#include <vector>

#include "cluster/cluster.h"

namespace nest::rivals {

// Every device at one switch. A cluster that is flat is itself the only answer.
std::vector<cluster::Cluster> flat_networks(const cluster::Cluster& cluster);

// Nodes, and one switch between all of them. A cluster of one or two even levels is itself the only answer; a torus,
// which has no nodes, is taken as flat.
std::vector<cluster::Cluster> two_level_networks(const cluster::Cluster& cluster);

}  // namespace nest::rivals
