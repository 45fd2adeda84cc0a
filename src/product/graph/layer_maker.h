// Segments of a flow as layers of a model. Internal to graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/flow.h"
#include "graph/segments.h"
#include "model/build.h"
#include "model/graph.h"

namespace nest::graph {

// A layer before its axes are labelled, with what labelling needs to know of its operators.
struct DraftLayer {
  model::Layer layer;
  std::vector<std::string> annotations;  // per operator: how the user wants it divided, or empty
  std::vector<bool> linear;              // per operator: a product with a weight matrix
  std::vector<bool> pointwise;           // per operator: element by element, or a copy; heads and columns stay apart
  std::vector<bool> reduces;             // per operator: sums over the row
  std::vector<model::TensorId> leaving;  // tensors that later layers read
  int logits = -1;                       // operator that projects to them, in a head
  bool operator==(const DraftLayer& other) const = default;
};

struct Draft {
  std::vector<DraftLayer> kinds;
  std::vector<int> layers;
  std::vector<model::Edge> edges;
  bool has_sequence = false;
  bool divisible_sequence = false;
  std::vector<std::string> notes;
};

Draft make_draft(const Flow& flow, const std::vector<Segment>& segments, const model::Implementation& implementation);

}  // namespace nest::graph
