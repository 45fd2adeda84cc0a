#include "graph/mixture.h"

#include <algorithm>

#include "base/checked.h"
#include "base/index.h"

namespace nest::graph {
namespace {

class MixtureWriter {
 public:
  MixtureWriter(const MixtureParts& parts, const model::Implementation& implementation, model::Layer& layer)
      : parts_(parts), implementation_(implementation), layer_(layer) {
    hidden_ = model::row_elements(layer.tensors[at(parts.input)]);
  }

  std::vector<model::Operator> run() {
    layer_.experts = parts_.experts;
    layer_.top_k = parts_.top_k;
    const model::Extent experts{parts_.experts};
    const model::Extent width{parts_.ffn, model::Axis::expert_ffn};
    const model::TensorId logits = tensor("router logits", {experts}, model::Rows::tokens, 0);
    const model::TensorId scores = tensor("router scores", {experts}, model::Rows::tokens, 4);
    const model::TensorId one_hot = tensor("router one-hot", {experts}, model::Rows::tokens, 4);
    const model::TensorId lists = tensor("router top-k", {{parts_.top_k}}, model::Rows::tokens, 20);
    add(model::OperatorKind::matmul, "router", {parts_.input}, {logits}, {parts_.input}).weights = router_weights();
    add(model::OperatorKind::router, "top-k", {logits}, {scores}, {logits, scores, one_hot, lists});
    const model::TensorId routed = tensor("routed tokens", {{hidden_}}, model::Rows::routed, 0);
    add(model::OperatorKind::dispatch, "dispatch", {parts_.input, scores}, {routed}, {});

    const model::TensorId up = tensor("experts up", {width}, model::Rows::routed, 0);
    const model::TensorId product = tensor("experts active", {width}, model::Rows::routed, 0);
    if (parts_.gated) {
      const model::TensorId gate = tensor("experts gate", {width}, model::Rows::routed, 0);
      add(model::OperatorKind::grouped_matmul, "experts gate+up", {routed}, {gate, up}, {routed}).weights = {
          stacked("experts.gate", {width, {hidden_}}), stacked("experts.up", {width, {hidden_}})};
      const model::TensorId active = tensor("experts " + parts_.activation, {width}, model::Rows::routed, 0);
      add(model::OperatorKind::elementwise, "activation", {gate, up}, {product}, {gate, up, active}).module =
          model::Module::moe_activation;
    } else {
      add(model::OperatorKind::grouped_matmul, "experts up", {routed}, {up}, {routed}).weights = {
          stacked("experts.up", {width, {hidden_}})};
      add(model::OperatorKind::elementwise, "activation", {up}, {product}, {up}).module = model::Module::moe_activation;
    }
    const model::TensorId out = tensor("experts out", {{hidden_}}, model::Rows::routed, 0);
    add(model::OperatorKind::grouped_matmul, "experts down", {product}, {out}, {product}).weights = {
        stacked("experts.down", {{hidden_}, width})};
    add(model::OperatorKind::combine, "combine", {out, scores}, {parts_.output}, {out});
    return std::move(operators_);
  }

 private:
  model::TensorId tensor(const std::string& name, std::vector<model::Extent> width, model::Rows rows, int bytes) {
    model::Tensor made;
    made.name = parts_.name + " " + name;
    made.rows = rows;
    made.width = std::move(width);
    made.element_bytes = bytes == 0 ? implementation_.activation_bytes : bytes;
    made.rows_per_unit = layer_.tensors[at(parts_.input)].rows_per_unit;
    layer_.tensors.push_back(std::move(made));
    return static_cast<model::TensorId>(layer_.tensors.size()) - 1;
  }

  model::Operator& add(model::OperatorKind kind, const std::string& name, std::vector<model::TensorId> inputs,
                       std::vector<model::TensorId> outputs, std::vector<model::TensorId> saves) {
    model::Operator op;
    op.kind = kind;
    op.name = parts_.name + " " + name;
    op.module = model::Module::moe;
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
    op.saves = std::move(saves);
    operators_.push_back(std::move(op));
    return operators_.back();
  }

  model::Weight stacked(const std::string& name, std::vector<model::Extent> shape) const {
    shape.insert(shape.begin(), {parts_.experts, model::Axis::experts});
    return {name, std::move(shape), {}};
  }

  // What the experts' matrices do not account for is held by every rank: the router, biases, what else there is.
  std::vector<model::Weight> router_weights() const {
    std::int64_t all = 0;
    for (const model::Weight& weight : parts_.weights) all = checked_sum({all, elements(weight)});
    const std::int64_t experts = checked_product({parts_.experts, parts_.ffn, hidden_, parts_.gated ? 3 : 2});
    const std::int64_t rest = std::max<std::int64_t>(0, all - experts);
    const std::int64_t router = checked_product({parts_.experts, hidden_});
    std::vector<model::Weight> weights = {{"router.weight", {{parts_.experts}, {hidden_}}, {}}};
    if (rest > router) weights.push_back({"router.rest", {{rest - router}}, {}});
    return weights;
  }

  const MixtureParts& parts_;
  const model::Implementation& implementation_;
  model::Layer& layer_;
  std::int64_t hidden_ = 0;
  std::vector<model::Operator> operators_;
};

}  // namespace

std::vector<model::Operator> write_mixture(const MixtureParts& parts, const model::Implementation& implementation,
                                           model::Layer& layer) {
  return MixtureWriter(parts, implementation, layer).run();
}

}  // namespace nest::graph
