// Clusters written in a line or two.
#pragma once

#include <string>

#include "cluster/cluster.h"

namespace nest::test {

// H100 devices on the given network: the `levels` or `torus` of a cluster file.
inline Cluster cluster_of(const std::string& network) {
  return read_cluster(parse_yaml("test", "device: h100\n" + network), "test");
}

}  // namespace nest::test
