// Parts of blocks that few families have: blocks that layers share, conformers' convolutions, several streams of which a
// block works on one, embeddings of a layer's own.
//
// Streams (AltUp, Gemma 3n), n of them: a block predicts all from all with coefficients that the active one gives
// (tanh(R norm(x)) times [n², n]), works on the active one, and corrects every prediction by a multiple of what the
// active one is off (tanh(R norm(y)) times [n, n]). Written out in Python, the product over streams keeps a copy of all n,
// and the difference is repeated n times before it is multiplied.
#include "base/index.h"
#include "model/layer_builder.h"

namespace nest::model {

std::int64_t LayerBuilder::width_in(TensorId x) const { return row_elements(layer_.tensors[at(x)]); }

std::vector<TensorId> LayerBuilder::adapt(const std::string& name, TensorId x, std::int64_t rank,
                                          const std::vector<TensorId>& results) {
  const TensorId low = matmul(name + " adapter down", Module::other, x, {tensor(name + " adapter", {{rank}})},
                              {matrix("adapter." + name + "_down", {{rank}, {width_in(x)}})});
  std::vector<TensorId> added, sums;
  std::vector<Weight> weights;
  for (const TensorId result : results) {
    added.push_back(like(result, layer_.tensors[at(result)].name + " adapter out"));
    std::vector<Extent> shape = width_of(result);
    shape.push_back({rank});
    weights.push_back(matrix("adapter." + name + "_up", std::move(shape)));
  }
  matmul(name + " adapter up", Module::other, low, added, std::move(weights));
  for (std::size_t i = 0; i < results.size(); ++i) {
    sums.push_back(like(results[i], layer_.tensors[at(results[i])].name + " adapted"));
    add_operator(OperatorKind::elementwise, name + " add adapter", Module::other, {results[i], added[i]}, {sums.back()},
                 {});
  }
  return sums;
}

TensorId LayerBuilder::shared_block(const SharedBlock& shared, TensorId x) {
  const Attention& attention = shared.attention;
  const TensorId embeddings = stream("embeddings");
  layer_.side_inputs.push_back(embeddings);
  const TensorId both = tensor("stream and embeddings", {{2 * hidden()}});
  add_operator(OperatorKind::copy, "concatenate", Module::other, {x, embeddings}, {both}, {});
  const std::size_t first = layer_.operators.size();
  const TensorId normed = norm("shared norm 1", both, NormKind::rms, true, false);
  Projected qkv = project(attention, normed, normed, "attention");
  if (shared.attention_rank > 0) {
    for (TensorId* part : {&qkv.q, &qkv.k, &qkv.v}) {
      const std::string name = layer_.tensors[at(*part)].name;
      *part = adapt(name, normed, shared.attention_rank, {*part}).front();
    }
  }
  const Projected projected = qkv;
  rotate(attention, qkv);
  const TensorId attended = project_out(attention, attend(attention, projected, qkv, false), "attention");
  const TensorId second = norm("shared norm 2", attended, NormKind::rms, true, false);
  const TensorId fed = feed_forward(shared.feed_forward, second, "ffn", Axis::ffn, Rows::tokens);
  for (std::size_t i = first; i < layer_.operators.size(); ++i) {
    Operator& op = layer_.operators[i];
    for (Weight& weight : op.weights) {
      if (weight.name.starts_with("adapter.")) continue;
      weight.tied_to = "shared block " + std::to_string(shared.number) + ", " + op.name + ", " + weight.name;
    }
  }
  return matmul("shared out", Module::other, fed, {stream("shared out")},
                {matrix("shared.out", {{hidden()}, {hidden()}})});
}

TensorId LayerBuilder::gated_convolution(std::int64_t taps, TensorId x) {
  const Extent channels{hidden()};
  const TensorId values = tensor("convolution values", {channels});
  const TensorId gate = tensor("convolution gate", {channels});
  matmul("convolution in", Module::other, x, {values, gate},
         {matrix("state.values", {channels, channels}), matrix("state.gate", {channels, channels})});
  const TensorId gated = tensor("gated values", {channels});
  add_operator(OperatorKind::elementwise, "gate", Module::activation, {values, gate}, {gated}, {values, gate});
  StateMixer mixer;
  mixer.taps = taps;
  const TensorId normed = inner_norm("convolution norm", convolve(mixer, gated, true), NormKind::rms, "state.norm",
                                     {channels}, {{1}}, Module::norm);
  const TensorId active = tensor("convolution active", {channels});
  add_operator(OperatorKind::elementwise, "activation", Module::activation, {normed}, {active}, {normed});
  return matmul("convolution out", Module::other, active, {stream("convolution out")},
                {matrix("state.out", {channels, channels})});
}

TensorId LayerBuilder::scale(const std::string& name, TensorId x, const std::string& weight) {
  const TensorId scaled = like(x, name + " out");
  add_operator(OperatorKind::elementwise, name, Module::other, {x}, {scaled}, {x})
      .weights.push_back(matrix(weight, width_of(x)));
  return scaled;
}

TensorId LayerBuilder::laurel(std::int64_t rank, TensorId x) {
  const TensorId low = matmul("laurel left", Module::other, x, {tensor("laurel latent", {{rank}})},
                              {matrix("laurel.left", {{rank}, {hidden()}})});
  const TensorId out = matmul("laurel right", Module::other, low, {stream("laurel right out")},
                              {matrix("laurel.right", {{hidden()}, {rank}})});
  return residual("laurel residual", {x, norm("laurel norm", out, NormKind::rms, true, false, "laurel.norm")});
}

TensorId LayerBuilder::layer_input(const Block& block, TensorId x) {
  const Extent width{block.layer_input};
  const TensorId own = tensor("layer input", {width});
  layer_.side_inputs.push_back(own);
  const TensorId gate = matmul("layer input gate", Module::other, x, {tensor("layer input gate", {width})},
                               {matrix("layer_input.gate", {width, {hidden()}})});
  const TensorId active = tensor("layer input gate active", {width});
  add_operator(OperatorKind::elementwise, "layer input activation", Module::activation, {gate}, {active}, {gate});
  const TensorId product = tensor("layer input gated", {width});
  add_operator(OperatorKind::elementwise, "layer input multiply", Module::activation, {active, own}, {product},
               {active, own});
  const TensorId out = matmul("layer input projection", Module::other, product, {stream("layer input out")},
                              {matrix("layer_input.projection", {{hidden()}, width})});
  return norm("layer input norm", out, block.norm, true, false, "layer_input.norm");
}

// The router's weights are one for both uses in a block: the first counts them.
TensorId LayerBuilder::stream_coefficients(const std::string& name, TensorId x, std::int64_t out, bool first) {
  const Extent count{architecture_.streams};
  const TensorId normed = norm(name + " router norm", x, NormKind::rms, first, false, "streams.router_norm");
  const TensorId routed =
      matmul(name + " router", Module::other, normed, {tensor(name + " routed", {count})},
             first ? std::vector<Weight>{matrix("streams.router", {count, {hidden()}})} : std::vector<Weight>{});
  const TensorId modalities = tensor(name + " modalities", {count});
  add_operator(OperatorKind::elementwise, name + " tanh", Module::other, {routed}, {modalities}, {modalities});
  return matmul(name + " coefficients", Module::other, modalities, {tensor(name + " coefficients", {{out}})},
                {matrix("streams." + name, {{out}, count})});
}

LayerBuilder::Streams LayerBuilder::predict_streams(TensorId streams) {
  const std::int64_t count = architecture_.streams;
  const TensorId active = stream("active stream");
  add_operator(OperatorKind::copy, "active stream", Module::other, {streams}, {active}, {});
  const TensorId coefficients = stream_coefficients("predict", active, count * count, true);
  const Streams predicted = {stream("predicted active"), tensor("predicted others", {{(count - 1) * hidden()}})};
  const TensorId kept = huggingface() ? tensor("streams, transposed", {{count * hidden()}}) : streams;
  add_operator(OperatorKind::elementwise, "predict", Module::other, {streams, coefficients},
               {predicted.active, predicted.others}, {kept, coefficients});
  return predicted;
}

LayerBuilder::Streams LayerBuilder::correct_streams(const Streams& predicted, TensorId activated) {
  const std::int64_t count = architecture_.streams;
  const TensorId coefficients = stream_coefficients("correct", activated, count, false);
  const TensorId off = stream("innovation");
  add_operator(OperatorKind::add, "innovation", Module::other, {activated, predicted.active}, {off}, {});
  const Streams corrected = {stream("corrected active"), tensor("corrected others", {{(count - 1) * hidden()}})};
  const TensorId kept = huggingface() ? tensor("innovation, repeated", {{count * hidden()}}) : off;
  add_operator(OperatorKind::elementwise, "correct", Module::other,
               {off, coefficients, predicted.active, predicted.others}, {corrected.active, corrected.others},
               {kept, coefficients});
  return corrected;
}

TensorId LayerBuilder::join_streams(const Streams& corrected, TensorId added) {
  const TensorId streams = tensor("streams", {{architecture_.streams * hidden()}});
  add_operator(OperatorKind::add, "join streams", Module::other, {corrected.active, corrected.others, added}, {streams},
               {});
  return streams;
}

}  // namespace nest::model
