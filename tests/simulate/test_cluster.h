// Clusters written in a line or two.
#pragma once

#include <string>

#include "cluster/cluster.h"

namespace nest::test {

// H100 devices on the given network: the `levels` or `torus` of a cluster file.
inline cluster::Cluster cluster_of(const std::string& network) {
  return cluster::read_cluster(doc::parse_yaml("test", "device: h100\n" + network), "test");
}

}  // namespace nest::test
