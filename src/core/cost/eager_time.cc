#include "cost/eager_time.h"

#include <algorithm>

#include "base/index.h"

namespace nest::cost {
namespace {

using model::OperatorKind;

constexpr double kIndexed = 11.8;    // bytes' worth of time per element where indices are computed
constexpr double kJoined = 5;        // per byte of the result, where tensors are joined
constexpr double kRowWeight = 12.4;  // per element, of the gradient of a row of weights
constexpr double kBiasGradient = 5.2;
constexpr double kRouted = 31.7, kRoutedBack = 56.5;
constexpr double kLookUpBack = 84, kTableBack = 2.4;
constexpr double kUnrotated = 3;
constexpr double kFrozenNorm = 3.2;

struct Module {
  double forward, backward;  // per byte that the operator names
  double forward_launches, backward_launches;
};
constexpr Module kRootNorm{13.9, 30.1, 8, 17};
constexpr Module kLayerNorm{2.15, 4.75, 1, 2};
constexpr Module kWrittenLayerNorm{22.8, 42.9, 12, 23};
constexpr Module kRotary{12.6, 13.7, 10, 24};
constexpr Module kSingleRotary{25.7, 32.9, 14, 22};
constexpr Module kTanhGelu{9.3, 15, 8, 14};
constexpr Module kPlainExperts{10.4, 12.9, 4, 5};
constexpr Module kExpertGate{1.85, 2.77, 1, 2};
constexpr Module kGatedExperts{8.77, 11.33, 5, 7};  // both of these in one operator

// Launches of operators that are several kernels whatever they move.
constexpr double kAttentionBack = 5;
constexpr double kRouterLaunches = 20, kRouterBackLaunches = 15;
constexpr double kMoved = 12, kMovedBack = 20;  // dispatch, and combine
constexpr double kScanLaunches = 10, kScanBack = 20;
constexpr double kLossLaunches = 4;

class Writer {
 public:
  Writer(const split::LocalLayer& local, const EagerShape& shape)
      : layer_(*local.source),
        shape_(shape),
        readers_(layer_.tensors.size(), 0),
        activated_(layer_.tensors.size(), false) {}

  EagerWork work(const split::LocalOperator& op) {
    EagerWork found = own(op);
    add_sums(op, found);
    if (op.module == model::Module::moe_activation) {
      for (const model::TensorId id : op.source->outputs) activated_[at(id)] = true;
    }
    if (!op.backward) found.backward_bytes = found.backward_launches = 0;
    return found;
  }

 private:
  EagerWork of_module(const split::LocalOperator& op, const Module& module) const {
    return {module.forward * op.bytes_forward, module.backward * op.bytes_forward, module.forward_launches,
            module.backward_launches};
  }

  EagerWork own(const split::LocalOperator& op) const {
    const model::Operator& source = *op.source;
    switch (op.kind) {
      case OperatorKind::matmul:
      case OperatorKind::grouped_matmul: return product(op);
      case OperatorKind::attention: return {0, 0, 1, kAttentionBack};
      case OperatorKind::scan: return {0, 0, kScanLaunches, kScanBack};
      case OperatorKind::loss: return {0, 0, kLossLaunches, kLossLaunches};
      case OperatorKind::router: return {op.bytes_forward, op.bytes_backward, kRouterLaunches, kRouterBackLaunches};
      case OperatorKind::dispatch:
      case OperatorKind::combine:
        return {kRouted * shape_.routed_elements, kRoutedBack * shape_.routed_elements, kMoved, kMovedBack};
      case OperatorKind::embedding: {
        const double elements = op.bytes_forward / 2 / shape_.activation_bytes;
        const double trained = real(op.parameters - op.frozen_parameters);
        return {op.bytes_forward, trained > 0 ? kLookUpBack * elements + kTableBack * trained : 0, 1, 8};
      }
      case OperatorKind::norm: {
        if (is_sum(source)) return kernel(op);
        const int copies = inner_results(source);
        EagerWork norm = of_module(op, copies >= 3 ? kWrittenLayerNorm : copies >= 2 ? kRootNorm : kLayerNorm);
        if (copies >= 2 && op.frozen_parameters > 0) norm.backward_bytes -= kFrozenNorm * op.bytes_forward;
        return norm;
      }
      default: break;
    }
    if (source.name.starts_with("rotary")) {
      EagerWork rotary = of_module(op, source.name == "rotary fp32" ? kSingleRotary : kRotary);
      // All heads of latent attention share the part of their keys that is rotated: it is turned before it is copied to them.
      if (op.module == model::Module::latent_up) return {0, 0, rotary.forward_launches, rotary.backward_launches};
      const double rest = kUnrotated * (1 - shape_.rotated) * op.bytes_forward;
      return {rotary.forward_bytes * shape_.rotated + rest, rotary.backward_bytes * shape_.rotated + rest,
              rotary.forward_launches, rotary.backward_launches};
    }
    if (op.module == model::Module::moe_activation) {
      const auto activated = [&](model::TensorId id) { return activated_[at(id)]; };
      const bool gate = std::any_of(source.inputs.begin(), source.inputs.end(), activated);
      return of_module(op, gate ? kExpertGate : source.inputs.size() > 1 ? kGatedExperts : kPlainExperts);
    }
    if (inner_results(source) >= 3) return of_module(op, kTanhGelu);
    if (op.kind == OperatorKind::copy && feeds_loss(source)) return {0, 0, 1, 1};  // part of the loss's price
    return kernel(op);
  }

  EagerWork product(const split::LocalOperator& op) const {
    const model::Operator& source = *op.source;
    const bool biased = source.weights.size() > source.outputs.size() && !source.adapter;
    const double trained = op.weight_gradient > 0 ? 1 : 0;
    EagerWork found{0, 0, 1, (op.input_gradient ? 1 : 0) + trained};
    if (biased && trained > 0) {
      found.backward_bytes = kBiasGradient * op.m * real(op.n);
      found.backward_launches += 1;
    }
    return found;
  }

  // One kernel forward.
  EagerWork kernel(const split::LocalOperator& op) const {
    const model::Operator& source = *op.source;
    // Of weights alone, which are small.
    if (source.inputs.empty() || source.outputs.empty()) return {op.bytes_forward, op.bytes_backward, 1, 1};
    const model::Tensor& out = layer_.tensors[at(source.outputs.front())];
    const double elements = elements_of(is_sum(source) ? layer_.tensors[at(source.inputs.front())] : out);
    double named = 0;
    for (const model::TensorId id : source.inputs) named += bytes_of(id, out);
    for (const model::TensorId id : source.outputs) named += bytes_of(id, out);
    if (named <= 0) return {op.bytes_forward, op.bytes_backward, 1, 1};
    const double scale = op.bytes_forward / named;  // rows, and what the split divides
    double indexed = is_indexed(source) ? kIndexed * elements : 0;
    const bool joins = op.kind == OperatorKind::copy && source.inputs.size() > 1;
    if (joins) indexed = std::max(indexed, kJoined * elements * out.element_bytes);
    EagerWork found{scale * std::max(named, indexed), 0, 1, 0};
    for (const model::TensorId id : source.saves) {
      const double kept = bytes_of(id, out);
      const double input = elements * layer_.tensors[at(source.inputs.front())].element_bytes;
      const double gradients = elements * out.element_bytes + input;
      found.backward_bytes += scale * std::max(gradients + kept, indexed);
      found.backward_launches += 1;
    }
    if (is_power(source)) {
      found.backward_bytes += 2 * found.forward_bytes;
      found.backward_launches += 2;
    }
    const bool sums = op.kind == OperatorKind::add;  // gradients pass through
    if (source.saves.empty() && !sums) {
      found.backward_bytes = found.forward_bytes;
      found.backward_launches = 1;
    }
    if (!source.weights.empty() && op.frozen_parameters < op.parameters) {
      found.backward_bytes += scale * kRowWeight * elements;
      found.backward_launches += 2;
    }
    return found;
  }

  // Gradients that meet in a tensor that the operator is not the first to read.
  void add_sums(const split::LocalOperator& op, EagerWork& work) {
    const model::Operator& source = *op.source;
    for (const model::TensorId id : source.inputs) {
      if (++readers_[at(id)] < 2 || !op.input_gradient) continue;
      const bool product = op.kind == OperatorKind::matmul && source.product.batches == 0;
      const double bytes = product ? op.m * real(op.k) * layer_.tensors[at(id)].element_bytes : share_of(op, id);
      work.backward_bytes += 3 * bytes;
      work.backward_launches += 1;
    }
  }

  // Of the bytes that an operator names, those of one input.
  double share_of(const split::LocalOperator& op, model::TensorId input) const {
    const model::Tensor& out = layer_.tensors[at(op.source->outputs.front())];
    double named = 0;
    for (const model::TensorId id : op.source->inputs) named += bytes_of(id, out);
    for (const model::TensorId id : op.source->outputs) named += bytes_of(id, out);
    return named > 0 ? op.bytes_forward * bytes_of(input, out) / named : 0;
  }

  static double elements_of(const model::Tensor& tensor) {
    return real(model::row_elements(tensor)) * tensor.rows_per_unit;
  }
  // Of tensors with the rows of another one; others are small.
  double bytes_of(model::TensorId id, const model::Tensor& other) const {
    const model::Tensor& tensor = layer_.tensors[at(id)];
    return tensor.rows == other.rows ? elements_of(tensor) * tensor.element_bytes : 0;
  }

  bool is_indexed(const model::Operator& op) const {
    if (op.kind == OperatorKind::copy || !op.weights.empty()) return true;
    const model::Tensor& out = layer_.tensors[at(op.outputs.front())];
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](model::TensorId id) {
      const model::Tensor& in = layer_.tensors[at(id)];
      return in.rows != out.rows || elements_of(in) != elements_of(out) || in.element_bytes != out.element_bytes;
    });
  }

  bool feeds_loss(const model::Operator& op) const {
    return std::any_of(layer_.operators.begin(), layer_.operators.end(), [&](const model::Operator& reader) {
      return reader.kind == OperatorKind::loss &&
             std::find(reader.inputs.begin(), reader.inputs.end(), op.outputs.front()) != reader.inputs.end();
    });
  }

  // Of a traced graph; its gradient is three kernels: the lower power, the factor, the product.
  static bool is_power(const model::Operator& op) {
    return op.name.ends_with("pow") || op.name.find("pow#") != op.name.npos;
  }

  // A norm that is one sum over the row, of several operators that a norm was written out as.
  bool is_sum(const model::Operator& op) const {
    if (op.inputs.empty() || op.outputs.empty()) return false;
    const model::Tensor& in = layer_.tensors[at(op.inputs.front())];
    const model::Tensor& out = layer_.tensors[at(op.outputs.front())];
    return op.kind == OperatorKind::norm && elements_of(out) < elements_of(in);
  }

  // Tensors as wide as its input that it keeps and nobody hands to it: copies in fp32.
  int inner_results(const model::Operator& op) const {
    if (op.inputs.empty()) return 0;
    const model::Tensor& in = layer_.tensors[at(op.inputs.front())];
    int found = 0;
    for (const model::TensorId id : op.saves) {
      const auto is = [id](model::TensorId other) { return other == id; };
      const bool known =
          std::any_of(op.inputs.begin(), op.inputs.end(), is) || std::any_of(op.outputs.begin(), op.outputs.end(), is);
      found += !known && elements_of(layer_.tensors[at(id)]) >= elements_of(in) ? 1 : 0;
    }
    return found;
  }

  const model::Layer& layer_;
  const EagerShape& shape_;
  std::vector<int> readers_;
  std::vector<bool> activated_;  // by tensor: made by an activation of experts
};

}  // namespace

bool runs_as_written(const SoftwareStack& stack) {
  return stack.kernels == model::Stack::huggingface && !stack.fused_rowwise;
}

std::size_t repeated_operators(const model::Layer& layer) {
  std::vector<bool> kept(layer.tensors.size(), false);
  for (const model::Operator& op : layer.operators) {
    for (const model::TensorId id : op.saves) kept[at(id)] = true;
  }
  for (std::size_t i = layer.operators.size(); i > 0; --i) {
    const model::Operator& op = layer.operators[i - 1];
    const auto made = [&](model::TensorId id) {
      return kept[at(id)] && std::find(op.inputs.begin(), op.inputs.end(), id) == op.inputs.end();
    };
    if (std::any_of(op.outputs.begin(), op.outputs.end(), made)) return i;
    if (std::any_of(op.saves.begin(), op.saves.end(), made)) return i;
  }
  return 0;
}

std::vector<EagerWork> eager_work(const split::LocalLayer& local, const EagerShape& shape) {
  Writer writer(local, shape);
  std::vector<EagerWork> works;
  works.reserve(local.operators.size());
  for (const split::LocalOperator& op : local.operators) works.push_back(writer.work(op));
  return works;
}

}  // namespace nest::cost
