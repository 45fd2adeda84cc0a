// Which extents of a layer tensor parallelism may divide, found by pattern.
//
// A region starts at products with weights whose results are divided (column), passes through work that leaves columns
// apart, and ends at products that contract them (row). Attention makes regions of heads; any other linear - pointwise
// - linear makes one of the feed-forward's width. A region that touches what enters or leaves the layer, or anything
// that mixes columns, is no region: it stays whole.
#pragma once

#include "graph/layer_maker.h"

namespace nest::graph {

// Labels the layer's extents and modules. Throws InputError where an annotation asks for what is not possible.
void label_splits(DraftLayer& draft, const std::string& source);

}  // namespace nest::graph
