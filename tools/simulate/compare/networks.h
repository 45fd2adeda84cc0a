// Clusters on networks that are slower than the presets', as cluster files: what many have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.h"

namespace nest {

struct Network {
  std::string name;
  std::string yaml;  // empty: a preset of that name
};

// One uplink per node of 8 (up), leaves of four nodes that are oversubscribed (-o), a port per device (rails), slow tori.
std::vector<Network> slow_networks();
// The same, and all presets.
std::vector<Network> networks();

// The preset or slow network of that name, in that size. Throws InputError where it does not come in it.
cluster::Cluster network_cluster(const std::string& name, std::int64_t devices);

}  // namespace nest
