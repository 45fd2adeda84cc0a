#include "model/count.h"

#include <set>

#include "base/checked.h"
#include "base/index.h"

namespace nest::model {

ParameterCount count_parameters(const Model& model) {
  ParameterCount count;
  std::set<std::string> seen_ties;
  for (const int kind : model.layers) {
    const Layer& layer = model.kinds[at(kind)];
    for (const Operator& op : layer.operators) {
      for (const Weight& weight : op.weights) {
        if (!weight.tied_to.empty() && !seen_ties.insert(weight.tied_to).second) continue;
        const std::int64_t size = elements(weight);
        const bool routed = !weight.shape.empty() && weight.shape.front().axis == Axis::experts;
        count.total = checked_sum({count.total, size});
        count.active += routed ? size / layer.experts * layer.top_k : size;
        count.by_weight[weight.name] += size;
        count.by_kind[weight.name.substr(0, weight.name.find('.'))] += size;
      }
    }
  }
  return count;
}

}  // namespace nest::model
