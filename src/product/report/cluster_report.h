// A cluster for people and for programs.
#pragma once

#include <string>

#include "cluster/cluster.h"
#include "report/json.h"
#include "report/style.h"

namespace nest::report {

std::string cluster_text(const cluster::Cluster& cluster, const Style& style);

// The members of schema nest.show.cluster/1, without the schema itself.
Json cluster_json(const cluster::Cluster& cluster);

// "32 nodes of 8, 4 racks": how the devices are grouped, in a few words.
std::string cluster_shape(const cluster::Cluster& cluster);

}  // namespace nest::report
