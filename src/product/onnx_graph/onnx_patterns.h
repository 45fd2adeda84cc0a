// Operators that an exporter took apart, put together again. Internal to onnx_graph.
#pragma once

#include "graph/raw_graph.h"

namespace nest::onnx_graph {

// Products followed by a bias; LayerNorm; what GELU and SiLU keep.
void join_patterns(graph::RawGraph& graph);

}  // namespace nest::onnx_graph
