// An operator graph as the models that a job needs: one as traced, for what is kept in memory, and one with adjacent
// pointwise operators fused, for times. Both have the same chain of layers.
//
// Layers are found by module paths or repetition (segments.h), equal ones become one kind, every tensor that crosses
// is an edge. Extents that tensor parallelism can divide are found by pattern: attention heads between projections,
// linear - pointwise - linear, the token table and the projection to logits (label_splits.h). A layer without them is
// computed on every tensor-parallel rank.
#pragma once

#include <string>
#include <vector>

#include "graph/raw_graph.h"
#include "model/build.h"
#include "model/graph.h"

namespace nest::graph {

struct GraphModels {
  model::Model model;
  model::Model fused_model;
};

// Tokens of a sequence as traced; 1 where nothing that works on data grows with the sequence.
std::int64_t default_sequence(const RawGraph& graph);

// `implementation` says which kernels run it and how many bytes activations have; the graph's own wider types stay.
GraphModels build_graph_models(const RawGraph& graph, const model::Implementation& implementation);

}  // namespace nest::graph
