// Any graph of layers as a chain.
//
// A pipeline needs an order. Layers are put in topological order (ties: the order given); a cut between positions i and
// i+1 must carry every tensor produced at or before i and still needed after it, each once, however many layers read
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/graph.h"

namespace nest {

struct LayerRun {
  int first = 0;  // position in the chain
  int count = 0;
  int kind = 0;
};

// A topological order of `layers` nodes. Throws InputError when the edges contain a cycle or name no layer.
std::vector<int> topological_order(int layers, std::span<const Edge> edges);

// For a chain 0 … layers-1: which edges cross the cut after position i, for i in 0 … layers-2.
std::vector<std::vector<int>> crossing_edges(int layers, std::span<const Edge> edges);

// Maximal runs of equal layers.
std::vector<LayerRun> find_runs(std::span<const int> layers);

}  // namespace nest
