#include "split/gradients.h"

#include <algorithm>

namespace nest::split {
namespace {

bool is_matmul(const model::Operator& op) {
  return op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul;
}

bool has_frozen(const model::Operator& op) {
  return std::any_of(op.weights.begin(), op.weights.end(), [](const model::Weight& weight) { return weight.frozen; });
}

bool has_trained(const model::Operator& op) {
  return std::any_of(op.weights.begin(), op.weights.end(), [](const model::Weight& weight) { return !weight.frozen; });
}

}  // namespace

Gradients::Gradients(const model::Layer& layer) : all_(layer.trains_all()) {
  if (all_) return;
  got_.assign(layer.tensors.size(), false);
  std::vector<bool> made(layer.tensors.size(), false);
  for (const model::Operator& op : layer.operators) {
    for (const model::TensorId id : op.outputs) made[at(id)] = true;
  }
  for (const model::Operator& op : layer.operators) {
    for (const model::TensorId id : op.inputs) {
      if (!made[at(id)]) got_[at(id)] = layer.input_gradient;
    }
  }
  for (const model::Operator& op : layer.operators) {
    const bool reads = std::any_of(op.inputs.begin(), op.inputs.end(), [&](model::TensorId id) { return of(id); });
    const bool gets = reads || has_trained(op);
    for (const model::TensorId id : op.outputs) got_[at(id)] = gets;
    any_ = any_ || gets;
  }
}

bool Gradients::runs_backward(const model::Operator& op) const {
  return all_ || std::any_of(op.outputs.begin(), op.outputs.end(), [&](model::TensorId id) { return of(id); });
}

double Gradients::trained_share(const model::Operator& op) const {
  if (all_ || !has_frozen(op)) return 1;
  double trained = 0, sum = 0;
  for (const model::Weight& weight : op.weights) {
    if (weight.shape.size() < 2) continue;  // a bias
    sum += real(model::elements(weight));
    if (!weight.frozen) trained += real(model::elements(weight));
  }
  return sum > 0 ? trained / sum : 0;
}

std::vector<model::TensorId> Gradients::saves(const model::Operator& op) const {
  if (all_) return op.saves;
  if (!runs_backward(op)) return {};
  std::vector<model::TensorId> kept = op.saves;
  if (is_matmul(op) && op.product.batches == 0 && trained_share(op) == 0) {
    std::erase_if(
        kept, [&](model::TensorId id) { return std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end(); });
  }
  // Of a norm that is written out, the normalised rows wait for the gradient of its weight.
  constexpr std::size_t kWrittenOut = 3;
  if (op.kind == model::OperatorKind::norm && kept.size() == kWrittenOut && !op.weights.empty() &&
      std::all_of(op.weights.begin(), op.weights.end(), [](const model::Weight& weight) { return weight.frozen; })) {
    kept.pop_back();
  }
  return kept;
}

}  // namespace nest::split
