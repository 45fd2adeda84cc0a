// Clusters of H100 nodes on networks that are slower than the presets', as cluster files: what many have.
#pragma once

#include <string>
#include <vector>

namespace nest {

struct Network {
  std::string name;
  std::string yaml;  // empty: a preset of that name
};

// One uplink per node of 8 (up), leaves of four nodes that are oversubscribed (-o), a port per device (rails), a slow
// torus; and presets of every kind.
std::vector<Network> networks();

}  // namespace nest
