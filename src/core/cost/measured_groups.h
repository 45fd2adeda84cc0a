// Which of a cluster's measured collectives a plan's groups use.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "plan/plan.h"

namespace nest::cost {

// "all-reduce of 16 ranks on 2 hosts (allreduce.txt)", in the order of the tables.
std::vector<std::string> measured_groups(const cluster::Cluster& cluster, const Strategy& strategy,
                                         const std::vector<StagePlan>& stages);

}  // namespace nest::cost
