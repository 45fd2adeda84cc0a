// Which gradients the backward pass of a layer computes: autograd's rule. Internal to split.
//
// A tensor gets a gradient where an operator that produced it has a trained weight, or reads a tensor that gets one; what
// the layer reads gets one unless nothing before it is trained (Layer::input_gradient). An operator none of whose outputs
// gets a gradient has no backward and keeps nothing. A product keeps its input for the gradient of its weights alone:
//     backward = forward * ([the input gets a gradient] + trained elements / elements of its weights)
// A norm that transformers writes out keeps its normalised rows for the gradient of its weight alone.
// Of norms, attention and element-wise operators the whole backward counts as soon as there is one: their kernels compute
// all gradients together.
#pragma once

#include <vector>

#include "base/index.h"
#include "model/graph.h"

namespace nest::split {

class Gradients {
 public:
  explicit Gradients(const model::Layer& layer);

  bool of(model::TensorId tensor) const { return all_ || got_[at(tensor)]; }
  bool any() const { return all_ || any_; }
  bool runs_backward(const model::Operator& op) const;
  // Of a product's matrices, the share of elements that is trained; 1 where it has no weights of its own.
  double trained_share(const model::Operator& op) const;
  // The tensors that the operator keeps for its backward.
  std::vector<model::TensorId> saves(const model::Operator& op) const;

 private:
  bool all_ = true;  // nothing is frozen
  bool any_ = false;
  std::vector<bool> got_;  // by tensor
};

}  // namespace nest::split
