// A layer as fused kernels would run it: what times are calibrated on.
//
//   copies that change layout or type, or repeat keys for attention, are gone
//   products of one tensor with several weights are one product with several results
//   runs of pointwise operators are one that reads what comes from outside and writes what leaves
//   such a run that also sums over the row and uses the sum is a norm
#pragma once

#include "graph/layer_maker.h"

namespace nest::graph {

struct FusedLayer {
  model::Layer layer;
  std::vector<int> norms;  // operators of the draft that are pieces of a norm
};

FusedLayer fuse(const DraftLayer& draft);

}  // namespace nest::graph
