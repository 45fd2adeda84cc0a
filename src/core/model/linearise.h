// What crosses the cuts of a chain of layers. A cut between positions i and i+1 must carry every tensor produced at or
// before i and still needed after it, each once, however many layers read it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/graph.h"

namespace nest::model {

struct LayerStretch {
  int first = 0;  // position in the chain
  int count = 0;
  int kind = 0;
};

// For a chain 0 … layers-1: which edges cross the cut after position i, for i in 0 … layers-2.
std::vector<std::vector<int>> crossing_edges(int layers, std::span<const Edge> edges);

// Maximal stretches of equal layers.
std::vector<LayerStretch> find_stretches(std::span<const int> layers);

}  // namespace nest::model
