// Where one layer ends and the next begins: nodes of a flow as a chain of layers.
//
// Modules that are numbered (model.layers.3, encoder.block.7) are a layer each; a numbered module that is like no other
// and mostly consists of numbered ones is divided further. What lies between is a layer of its own where it has
// weights. Stretches without such names are searched for operators that repeat; the rest is cut where few bytes cross.
// Internal to graph.
#pragma once

#include <string>
#include <vector>

#include "graph/flow.h"

namespace nest::graph {

struct Segment {
  int first = 0;  // nodes, both included
  int last = 0;
  std::string prefix;     // module path of a numbered module; else empty
  bool repeated = false;  // a numbered module, or a period of a repeated stretch
};

std::vector<Segment> find_segments(const Flow& flow);

}  // namespace nest::graph
