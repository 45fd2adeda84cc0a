#include "model/graph.h"

#include <algorithm>

#include "base/checked.h"

namespace nest::model {

bool Layer::trains_all() const {
  const auto has_frozen = [](const Operator& op) {
    return std::any_of(op.weights.begin(), op.weights.end(), [](const Weight& weight) { return weight.frozen; });
  };
  return input_gradient && std::none_of(operators.begin(), operators.end(), has_frozen);
}

std::int64_t elements(const Weight& weight) {
  std::int64_t product = 1;
  for (const Extent& extent : weight.shape) product = checked_product({product, extent.size});
  return product;
}

std::int64_t row_elements(const Tensor& tensor) {
  std::int64_t product = 1;
  for (const Extent& extent : tensor.width) product = checked_product({product, extent.size});
  return product;
}

const char* to_string(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::matmul: return "matmul";
    case OperatorKind::grouped_matmul: return "grouped matmul";
    case OperatorKind::attention: return "attention";
    case OperatorKind::scan: return "scan";
    case OperatorKind::norm: return "norm";
    case OperatorKind::elementwise: return "elementwise";
    case OperatorKind::add: return "add";
    case OperatorKind::copy: return "copy";
    case OperatorKind::embedding: return "embedding";
    case OperatorKind::router: return "router";
    case OperatorKind::dispatch: return "dispatch";
    case OperatorKind::combine: return "combine";
    case OperatorKind::loss: return "loss";
  }
  return "?";
}

const char* to_string(LayerKind kind) {
  switch (kind) {
    case LayerKind::embedding: return "embedding";
    case LayerKind::block: return "block";
    case LayerKind::norm: return "norm";
    case LayerKind::head: return "head";
  }
  return "?";
}

}  // namespace nest::model
