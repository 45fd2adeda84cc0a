// A mixture of experts that was traced as one operator, written out. Internal to graph.
#pragma once

#include <string>
#include <vector>

#include "model/build.h"
#include "model/graph.h"

namespace nest {

struct MixtureParts {
  std::string name;
  TensorId input = -1;
  TensorId output = -1;
  std::vector<Weight> weights;  // all of them: router, experts, whatever else
  std::int64_t experts = 0, top_k = 0, ffn = 0;
  bool gated = false;
  std::string activation;
};

// Router, dispatch, the experts' products, combine. Adds tensors to the layer and sets its experts.
std::vector<Operator> write_mixture(const MixtureParts& parts, const Implementation& implementation, Layer& layer);

}  // namespace nest
