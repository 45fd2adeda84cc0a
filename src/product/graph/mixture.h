// A mixture of experts that was traced as one operator, written out. Internal to graph.
#pragma once

#include <string>
#include <vector>

#include "model/build.h"
#include "model/graph.h"

namespace nest::graph {

struct MixtureParts {
  std::string name;
  model::TensorId input = -1;
  model::TensorId output = -1;
  std::vector<model::Weight> weights;  // all of them: router, experts, whatever else
  std::int64_t experts = 0, top_k = 0, ffn = 0;
  bool gated = false;
  std::string activation;
};

// Router, dispatch, the experts' products, combine. Adds tensors to the layer and sets its experts.
std::vector<model::Operator> write_mixture(const MixtureParts& parts, const model::Implementation& implementation,
                                           model::Layer& layer);

}  // namespace nest::graph
