#include "graph/mixture.h"

#include <algorithm>

#include "base/checked.h"
#include "base/index.h"

namespace nest {
namespace {

class MixtureWriter {
 public:
  MixtureWriter(const MixtureParts& parts, const Implementation& implementation, Layer& layer)
      : parts_(parts), implementation_(implementation), layer_(layer) {
    hidden_ = row_elements(layer.tensors[at(parts.input)]);
  }

  std::vector<Operator> run() {
    layer_.experts = parts_.experts;
    layer_.top_k = parts_.top_k;
    const Extent experts{parts_.experts};
    const Extent width{parts_.ffn, Axis::expert_ffn};
    const TensorId logits = tensor("router logits", {experts}, Rows::tokens, 0);
    const TensorId scores = tensor("router scores", {experts}, Rows::tokens, 4);
    const TensorId one_hot = tensor("router one-hot", {experts}, Rows::tokens, 4);
    const TensorId lists = tensor("router top-k", {{parts_.top_k}}, Rows::tokens, 20);
    add(OperatorKind::matmul, "router", {parts_.input}, {logits}, {parts_.input}).weights = router_weights();
    add(OperatorKind::router, "top-k", {logits}, {scores}, {logits, scores, one_hot, lists});
    const TensorId routed = tensor("routed tokens", {{hidden_}}, Rows::routed, 0);
    add(OperatorKind::dispatch, "dispatch", {parts_.input, scores}, {routed}, {});

    const TensorId up = tensor("experts up", {width}, Rows::routed, 0);
    const TensorId product = tensor("experts active", {width}, Rows::routed, 0);
    if (parts_.gated) {
      const TensorId gate = tensor("experts gate", {width}, Rows::routed, 0);
      add(OperatorKind::grouped_matmul, "experts gate+up", {routed}, {gate, up}, {routed}).weights = {
          stacked("experts.gate", {width, {hidden_}}), stacked("experts.up", {width, {hidden_}})};
      const TensorId active = tensor("experts " + parts_.activation, {width}, Rows::routed, 0);
      add(OperatorKind::elementwise, "activation", {gate, up}, {product}, {gate, up, active}).module =
          Module::moe_activation;
    } else {
      add(OperatorKind::grouped_matmul, "experts up", {routed}, {up}, {routed}).weights = {
          stacked("experts.up", {width, {hidden_}})};
      add(OperatorKind::elementwise, "activation", {up}, {product}, {up}).module = Module::moe_activation;
    }
    const TensorId out = tensor("experts out", {{hidden_}}, Rows::routed, 0);
    add(OperatorKind::grouped_matmul, "experts down", {product}, {out}, {product}).weights = {
        stacked("experts.down", {{hidden_}, width})};
    add(OperatorKind::combine, "combine", {out, scores}, {parts_.output}, {out});
    return std::move(operators_);
  }

 private:
  TensorId tensor(const std::string& name, std::vector<Extent> width, Rows rows, int bytes) {
    Tensor made;
    made.name = parts_.name + " " + name;
    made.rows = rows;
    made.width = std::move(width);
    made.element_bytes = bytes == 0 ? implementation_.activation_bytes : bytes;
    made.rows_per_unit = layer_.tensors[at(parts_.input)].rows_per_unit;
    layer_.tensors.push_back(std::move(made));
    return static_cast<TensorId>(layer_.tensors.size()) - 1;
  }

  Operator& add(OperatorKind kind, const std::string& name, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
                std::vector<TensorId> saves) {
    Operator op;
    op.kind = kind;
    op.name = parts_.name + " " + name;
    op.module = Module::moe;
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
    op.saves = std::move(saves);
    operators_.push_back(std::move(op));
    return operators_.back();
  }

  Weight stacked(const std::string& name, std::vector<Extent> shape) const {
    shape.insert(shape.begin(), {parts_.experts, Axis::experts});
    return {name, std::move(shape), {}};
  }

  // What the experts' matrices do not account for is held by every rank: the router, biases, what else there is.
  std::vector<Weight> router_weights() const {
    std::int64_t all = 0;
    for (const Weight& weight : parts_.weights) all = checked_sum({all, elements(weight)});
    const std::int64_t experts = checked_product({parts_.experts, parts_.ffn, hidden_, parts_.gated ? 3 : 2});
    const std::int64_t rest = std::max<std::int64_t>(0, all - experts);
    const std::int64_t router = checked_product({parts_.experts, hidden_});
    std::vector<Weight> weights = {{"router.weight", {{parts_.experts}, {hidden_}}, {}}};
    if (rest > router) weights.push_back({"router.rest", {{rest - router}}, {}});
    return weights;
  }

  const MixtureParts& parts_;
  const Implementation& implementation_;
  Layer& layer_;
  std::int64_t hidden_ = 0;
  std::vector<Operator> operators_;
};

}  // namespace

std::vector<Operator> write_mixture(const MixtureParts& parts, const Implementation& implementation, Layer& layer) {
  return MixtureWriter(parts, implementation, layer).run();
}

}  // namespace nest
