#include "model/layer_builder.h"

#include "base/error.h"
#include "base/index.h"

namespace nest::model {
Weight matrix(std::string name, std::vector<Extent> shape) { return {std::move(name), std::move(shape), {}}; }

LayerBuilder::LayerBuilder(const Architecture& architecture, const Implementation& implementation, LayerKind kind,
                           std::string name, bool encoder)
    : LayerBuilder(architecture, implementation, kind, std::move(name), encoder, {architecture.hidden}) {}

LayerBuilder::LayerBuilder(const Architecture& architecture, const Implementation& implementation, LayerKind kind,
                           std::string name, bool encoder, const Stream& stream)
    : architecture_(architecture),
      implementation_(implementation),
      stream_(stream),
      habits_(huggingface_habits(architecture.family)) {
  layer_.kind = kind;
  layer_.name = std::move(name);
  layer_.encoder = encoder;
}

TensorId LayerBuilder::tensor(std::string name, std::vector<Extent> width, Rows rows, int element_bytes) {
  const int bytes = element_bytes == 0 ? implementation_.activation_bytes : element_bytes;
  layer_.tensors.push_back({std::move(name), rows, std::move(width), bytes});
  if (stream_.rows > 0 && rows == Rows::tokens) {
    layer_.tensors.back().rows = Rows::samples;
    layer_.tensors.back().rows_per_unit = stream_.rows * stream_.media;
  }
  return static_cast<TensorId>(layer_.tensors.size()) - 1;
}

Operator& LayerBuilder::add_operator(OperatorKind kind, std::string name, Module module, std::vector<TensorId> inputs,
                                     std::vector<TensorId> outputs, std::vector<TensorId> saves) {
  Operator op;
  op.name = std::move(name);
  op.kind = kind;
  op.module = module;
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.saves = std::move(saves);
  layer_.operators.push_back(std::move(op));
  return layer_.operators.back();
}

TensorId LayerBuilder::matmul(const std::string& name, Module module, TensorId x, std::vector<TensorId> outputs,
                              std::vector<Weight> weights) {
  const TensorId first = outputs.front();
  const bool grouped = !weights.empty() && weights.front().shape.front().axis == Axis::experts;
  Operator& op = add_operator(grouped ? OperatorKind::grouped_matmul : OperatorKind::matmul, name, module, {x},
                              std::move(outputs), {x});
  op.weights = std::move(weights);
  return first;
}

std::vector<TensorId> LayerBuilder::kept_by_norm(const std::string& name, TensorId x, const std::vector<Extent>& width,
                                                 NormKind kind, const std::vector<Extent>& statistics) {
  const char* const statistic = kind == NormKind::rms ? " rstd" : " mean, rstd";
  std::vector<Extent> rows = statistics;
  if (kind == NormKind::layer) rows.push_back({2});
  if (!huggingface() || (kind == NormKind::layer && !habits_.writes_out_norms))
    return {x, beside(tensor(name + statistic, rows, Rows::tokens, 4), x)};
  // Written out in Python: the fp32 copy of the input, the reciprocal root and the normalised value are all kept.
  const bool fp32_product = habits_.weighs_in_fp32;
  std::vector<TensorId> kept = {beside(tensor(name + " in fp32", width, Rows::tokens, 4), x),
                                beside(tensor(name + statistic, rows, Rows::tokens, 4), x),
                                beside(tensor(name + " normalised", width, Rows::tokens, fp32_product ? 4 : 0), x)};
  if (kind == NormKind::layer) kept.push_back(beside(tensor(name + " centred again", width, Rows::tokens, 4), x));
  return kept;
}

TensorId LayerBuilder::norm(const std::string& name, TensorId x, NormKind kind, bool weight, bool bias,
                            const std::string& weight_name, Module module) {
  const std::vector<Extent> width = layer_.tensors[at(x)].width;
  const TensorId y = tensor(name + " out", width);
  Operator& op = add_operator(OperatorKind::norm, name, module, {x}, {y}, kept_by_norm(name, x, width, kind, {{1}}));
  if (weight) op.weights.push_back(matrix(weight_name, width));
  if (bias) op.weights.push_back(matrix(weight_name + "_bias", width));
  return y;
}

TensorId LayerBuilder::residual(const std::string& name, std::vector<TensorId> terms) {
  const TensorId sum = stream(name + " out");
  add_operator(OperatorKind::add, name, Module::other, std::move(terms), {sum}, {});
  return sum;
}

TensorId LayerBuilder::gate_residual(const std::string& name, TensorId x) {
  const TensorId gated = like(x, name + " out");
  // The number's own gradient needs what it multiplied.
  add_operator(OperatorKind::elementwise, name, Module::other, {x}, {gated}, {x})
      .weights.push_back(matrix("norm.residual_gate", {{1}}));
  return gated;
}

TensorId LayerBuilder::dropout(TensorId x) {
  if (!implementation_.dropout || architecture_.dropout <= 0) return x;
  const std::string name = layer_.tensors[at(x)].name + " dropout";
  const TensorId y = stream(name + " out");
  const TensorId mask = tensor(name + " mask", {{hidden()}}, Rows::tokens, 1);
  add_operator(OperatorKind::elementwise, name, Module::other, {x}, {y}, {mask});
  return y;
}

TensorId LayerBuilder::feed_forward(const FeedForward& part, TensorId x, const std::string& prefix, Axis axis,
                                    Rows rows) {
  const Extent hidden{rows == Rows::routed ? row_elements(layer_.tensors[at(x)]) : this->hidden()};
  const Extent width{part.width, axis};
  const Module module = rows == Rows::routed ? Module::moe
                        : prefix == "shared" ? Module::shared_experts
                                             : Module::feed_forward;
  // Routed experts are one stacked weight, so that they can be spread.
  const auto shaped = [&](const std::string& name, std::vector<Extent> shape) {
    if (rows == Rows::routed) shape.insert(shape.begin(), Extent{layer_.experts, Axis::experts});
    return matrix(prefix + "." + name, std::move(shape));
  };

  const TensorId up = tensor(prefix + " up", {width}, rows);
  const TensorId gate = part.gated ? tensor(prefix + " gate", {width}, rows) : -1;
  std::vector<Weight> up_weights = {shaped("up", {width, hidden})};
  if (part.up_bias) up_weights.push_back(shaped("up_bias", {width}));
  std::vector<Weight> gate_weights;
  if (part.gated) gate_weights.push_back(shaped("gate", {width, hidden}));
  if (part.gated && part.up_bias) gate_weights.push_back(shaped("gate_bias", {width}));

  const bool fused =
      implementation_.stack == Stack::megatron || implementation_.stack == Stack::plain || rows == Rows::routed;
  if (part.gated && fused) {
    gate_weights.insert(gate_weights.end(), up_weights.begin(), up_weights.end());
    matmul(prefix + " gate+up", module, x, {gate, up}, std::move(gate_weights));
  } else {
    if (part.gated) matmul(prefix + " gate", module, x, {gate}, std::move(gate_weights));
    matmul(prefix + " up", module, x, {up}, std::move(up_weights));
  }
  std::vector<TensorId> read = part.gated ? std::vector<TensorId>{up, gate} : std::vector<TensorId>{up};
  if (part.adapter_rank > 0) read = adapt(prefix, x, part.adapter_rank, read);
  // The router keeps the tokens that shared experts read.
  if (module == Module::shared_experts) layer_.operators.back().keeps_original = true;
  TensorId active = activate(part, part.gated ? read[1] : -1, read[0], axis, rows, module);
  if (part.inner_norm) {
    active =
        inner_norm(prefix + " inner norm", active, *part.inner_norm, prefix + ".inner_norm", {width}, {{1}}, module);
  }

  std::vector<Weight> down_weights = {shaped("down", {hidden, width})};
  if (part.down_bias) down_weights.push_back(shaped("down_bias", {hidden}));
  const TensorId out =
      matmul(prefix + " down", module, active, {tensor(prefix + " down out", {hidden}, rows)}, std::move(down_weights));
  if (!part.output_gate) return out;
  const TensorId receptance = matmul(prefix + " output gate", module, x, {stream(prefix + " receptance")},
                                     {matrix(prefix + ".output_gate", {hidden, hidden})});
  const TensorId gated = stream(prefix + " gated out");
  add_operator(OperatorKind::elementwise, prefix + " gate", module, {out, receptance}, {gated}, {out, receptance});
  return gated;
}

TensorId LayerBuilder::activate(const FeedForward& part, TensorId gate, TensorId up, Axis axis, Rows rows,
                                Module module) {
  const Extent width{part.width, axis};
  const std::string name = to_string(part.activation);
  const Module own = module == Module::moe              ? Module::moe_activation
                     : module == Module::shared_experts ? Module::shared_activation
                                                        : Module::activation;
  if (!part.gated) return activate_plain(part, up, width, rows, own);

  const TensorId product = tensor(name + " x up", {width}, rows);
  if (megatron()) {
    add_operator(OperatorKind::elementwise, name + " x up", own, {gate, up}, {product}, {gate, up});
    return product;
  }
  const TensorId active = tensor(name + " out", {width}, rows);
  add_operator(OperatorKind::elementwise, name, own, {gate}, {active}, {gate});
  add_operator(OperatorKind::elementwise, "multiply", own, {active, up}, {product}, {active, up});
  return product;
}

TensorId LayerBuilder::activate_plain(const FeedForward& part, TensorId up, const Extent& width, Rows rows,
                                      Module module) {
  const std::string name = to_string(part.activation);
  const TensorId active = tensor(name + " out", {width}, rows);
  std::vector<TensorId> saves = {up};
  if (part.activation == Activation::relu) {
    saves = {active};  // the sign of the result is all that backward needs
  } else if (part.activation == Activation::relu_squared && !megatron()) {
    saves = {tensor("relu out", {width}, rows)};
  } else if (part.activation == Activation::gelu_new && huggingface()) {
    for (const char* step : {"half", "tanh", "one plus tanh"})
      saves.push_back(tensor(name + " " + step, {width}, rows));
  }
  add_operator(OperatorKind::elementwise, name, module, {up}, {active}, std::move(saves));
  return active;
}

TensorId LayerBuilder::route(const Mixture& mixture, TensorId x) {
  const Extent experts{mixture.experts};  // the router sees all experts on every rank
  std::vector<Weight> weights = {matrix("router.weight", {experts, {hidden()}})};
  if (mixture.router_bias) weights.push_back(matrix("router.weight_bias", {experts}));
  // Megatron routes in fp32 and keeps dense maps of scores and probabilities; the others keep top-k lists.
  const TensorId logits = tensor("router logits", {experts}, Rows::tokens, megatron() ? 4 : 2);
  matmul("router", Module::moe, x, {logits}, std::move(weights));
  layer_.operators.back().keeps_original = true;  // its product is of 16 bits or more
  const TensorId scores = tensor("router scores", {experts}, Rows::tokens, 4);
  std::vector<TensorId> saves = {logits, scores};
  if (megatron()) {
    saves.push_back(tensor("router maps", {experts}, Rows::tokens, 8));
    // The fused permutation keeps an int32 map from (token, expert) to rows.
    saves.push_back(tensor("row map", {{2 * mixture.experts + 1}}, Rows::tokens, 4));
  } else {
    saves.push_back(tensor("router one-hot", {experts}, Rows::tokens, 4));
    saves.push_back(tensor("router top-k", {{mixture.top_k}}, Rows::tokens, 20));
  }
  add_operator(OperatorKind::router, "top-k", Module::moe, {logits}, {scores}, std::move(saves));
  return scores;
}

TensorId LayerBuilder::mixture(const Mixture& mixture, TensorId x) {
  const Extent hidden{this->hidden()};
  layer_.experts = mixture.experts;
  layer_.top_k = mixture.top_k;
  layer_.expert_groups = mixture.groups;
  layer_.top_groups = mixture.top_groups;
  const TensorId scores = route(mixture, x);

  // Experts may work on a narrower stream: tokens are projected before they are sent, and their sums afterwards.
  const Extent width{mixture.latent > 0 ? mixture.latent : this->hidden()};
  TensorId sent = x;
  if (mixture.latent > 0) {
    sent = matmul("latent down", Module::moe, x, {tensor("latent tokens", {width})},
                  {matrix("experts.latent_down", {width, hidden})});
  }
  const TensorId routed = tensor("routed tokens", {width}, Rows::routed);
  add_operator(OperatorKind::dispatch, "dispatch", Module::moe, {sent, scores}, {routed}, {});
  const TensorId expert_out = feed_forward(mixture.expert, routed, "experts", Axis::expert_ffn, Rows::routed);
  TensorId combined = tensor("combined", {width});
  // Megatron weighs inside the experts' activation; elsewhere weighing the outputs keeps them.
  add_operator(OperatorKind::combine, "combine", Module::moe, {expert_out, scores}, {combined},
               megatron() ? std::vector<TensorId>{} : std::vector<TensorId>{expert_out});
  if (mixture.latent > 0) {
    combined = matmul("latent up", Module::moe, combined, {stream("combined, widened")},
                      {matrix("experts.latent_up", {hidden, width})});
  }
  if (!mixture.shared) return combined;

  TensorId shared = feed_forward(*mixture.shared, x, "shared", Axis::ffn, Rows::tokens);
  if (mixture.shared_gate) {
    const TensorId gate = tensor("shared switch", {{1}});
    matmul("shared switch", Module::moe, x, {gate}, {matrix("shared.switch", {{1}, hidden})});
    layer_.operators.back().keeps_original = true;
    const TensorId gated = stream("shared gated");
    add_operator(OperatorKind::elementwise, "switch", Module::moe, {shared, gate}, {gated}, {shared, gate});
    shared = gated;
  }
  return residual("shared + routed", {combined, shared});
}

}  // namespace nest::model
