#include "model/build_ends.h"

#include <algorithm>

#include "base/index.h"
#include "model/layer_builder.h"

namespace nest::model {
namespace {

// Rows that prefix towers put in the places of tokens.
void take_prefixes(LayerBuilder& b, TensorId& x) {
  for (const Tower& tower : b.architecture().towers) {
    if (!tower.media || !tower.media->prefix) continue;
    const double rows = tower.media->projector.empty() ? tower.media->rows : tower.media->projector.back().rows;
    const TensorId media = b.tensor(tower.name + " rows", {{b.hidden()}}, Rows::samples);
    b.layer().tensors[static_cast<std::size_t>(media)].rows_per_unit = rows * tower.media->each;
    b.layer().side_inputs.push_back(media);
    const TensorId merged = b.stream("tokens and " + tower.name);
    b.add_operator(OperatorKind::copy, "merge " + tower.name, Module::other, {x, media}, {merged}, {});
    x = merged;
  }
}

// Embeddings of every layer's own: a table's row and a projection of the stream, normed layer by layer, for all of them.
void add_layer_inputs(LayerBuilder& b, TensorId x) {
  const Architecture& arch = b.architecture();
  const Extent width{arch.layer_inputs};
  const std::int64_t each = arch.layer_inputs / std::ssize(arch.towers.back().blocks);
  const TensorId looked_up = b.tensor("layer inputs", {width});
  b.add_operator(OperatorKind::embedding, "layer inputs", Module::other, {}, {looked_up}, {})
      .weights.push_back(matrix("layer_input.table", {{arch.layer_vocabulary, Axis::vocabulary}, width}));
  const TensorId projected = b.matmul("project layer inputs", Module::other, x, {b.tensor("projected inputs", {width})},
                                      {matrix("layer_input.model", {width, {arch.hidden}})});
  const TensorId normed = b.norm("layer inputs norm", projected, NormKind::rms, true, false, "layer_input.norm");
  b.layer().operators.back().weights.back().shape = {{each}};
  b.add_operator(OperatorKind::add, "sum layer inputs", Module::other, {looked_up, normed},
                 {b.tensor("layer inputs of all", {width})}, {});
}

// Every stream but the first is a projection of the embeddings.
TensorId add_streams(LayerBuilder& b, TensorId x) {
  const std::int64_t others = b.architecture().streams - 1;
  const Extent hidden{b.hidden()};
  const TensorId projected =
      b.matmul("project streams", Module::other, x, {b.tensor("other streams", {{others}, hidden})},
               {matrix("streams.projection", {{others}, hidden, hidden})});
  const TensorId streams = b.tensor("streams", {{others + 1}, hidden});
  b.add_operator(OperatorKind::copy, "stack streams", Module::other, {x, projected}, {streams}, {});
  return streams;
}

}  // namespace

Layer build_embedding(const Architecture& arch, const Implementation& implementation, bool encoder, bool last) {
  LayerBuilder b(arch, implementation, LayerKind::embedding, "embedding", encoder);
  const std::int64_t width = arch.embedding_width > 0 ? arch.embedding_width : arch.hidden;
  const auto look_up = [&](const std::string& name, const std::string& weight, const Extent& rows,
                           std::int64_t columns) {
    const TensorId out = b.tensor(name, {{columns}});
    Operator& op = b.add_operator(OperatorKind::embedding, name, Module::other, {}, {out}, {});
    op.weights.push_back(matrix(weight, {rows, {columns}}));
    return out;
  };

  const std::int64_t tables = arch.narrow_tables ? width : arch.hidden;
  TensorId x = look_up("tokens", "embedding.tokens", {arch.vocabulary, Axis::vocabulary}, width);
  const bool shared =
      std::count_if(arch.towers.begin(), arch.towers.end(), [](const Tower& each) { return !each.media; }) > 1;
  if (shared || arch.tied_embeddings || implementation.mtp_layers > 0)
    b.layer().operators.back().weights.back().tied_to = kTokenTable;
  const auto project = [&](bool bias) {
    std::vector<Weight> weights = {matrix("embedding.projection", {{arch.hidden}, {width}})};
    if (bias) weights.push_back(matrix("embedding.projection_bias", {{arch.hidden}}));
    x = b.matmul("project in", Module::other, x, {b.stream("projected")}, std::move(weights));
  };
  if (width != arch.hidden && !arch.narrow_tables) project(false);
  std::vector<TensorId> terms = {x};
  if (arch.position == PositionKind::learned) {
    terms.push_back(look_up("positions", "embedding.positions", {arch.position_rows}, tables));
  }
  if (arch.token_types > 0) terms.push_back(look_up("types", "embedding.types", {arch.token_types}, tables));
  for (const std::int64_t rows : arch.further_tables) {
    terms.push_back(look_up("further table", "embedding.further", {rows}, tables));
  }
  if (terms.size() > 1) {
    const TensorId sum = b.tensor("sum out", {{tables}});
    b.add_operator(OperatorKind::add, "sum", Module::other, terms, {sum}, {});
    x = sum;
  }
  if (arch.embedding_norm)
    x = b.norm("norm", x, arch.embedding_norm_kind, arch.embedding_norm_weight,
               arch.embedding_norm_kind == NormKind::layer && arch.embedding_norm_bias, "embedding.norm");
  if (width != arch.hidden && arch.narrow_tables) project(true);
  if (last) take_prefixes(b, x);
  if (last && arch.layer_inputs > 0) add_layer_inputs(b, x);
  if (last && arch.streams > 1) x = add_streams(b, x);
  for (const SpareWeight& spare : arch.spare) {
    if (last) b.layer().operators.back().weights.push_back(matrix("spare." + spare.name, {{spare.elements}}));
  }
  b.layer().output = b.dropout(x);
  return b.take();
}

namespace {

// The head once more for every depth that predicts further tokens, with the same weights.
void add_further_losses(LayerBuilder& b, std::int64_t width) {
  const auto depths = static_cast<double>(b.implementation().mtp_layers);
  const Extent vocabulary{b.architecture().vocabulary, Axis::vocabulary};
  const auto rows = [&](TensorId id) {
    b.layer().tensors[static_cast<std::size_t>(id)].rows_per_unit = depths;
    return id;
  };
  const TensorId predictions = rows(b.tensor("predictions", {{width}}));
  b.layer().side_inputs.push_back(predictions);
  const TensorId logits = rows(b.tensor("further logits", {vocabulary}));
  b.matmul("lm head of further tokens", Module::other, predictions, {logits}, {});
  const TensorId probabilities = rows(b.tensor("further softmax fp32", {vocabulary}, Rows::tokens, 4));
  b.add_operator(OperatorKind::loss, "cross entropy of further tokens", Module::other, {logits},
                 {rows(b.tensor("further loss", {{1}}, Rows::tokens, 4))}, {probabilities});
}

// The mean of the first stream and projections of the others.
TensorId mean_of_streams(LayerBuilder& b, TensorId streams) {
  const std::int64_t others = b.architecture().streams - 1;
  const Extent hidden{b.hidden()};
  const TensorId rest = b.tensor("other streams", {{others}, hidden});
  b.add_operator(OperatorKind::copy, "other streams", Module::other, {streams}, {rest}, {});
  const TensorId projected =
      b.matmul("unproject streams", Module::other, rest, {b.tensor("unprojected", {{others}, hidden})},
               {matrix("streams.unprojection", {{others}, hidden, hidden})});
  // Each is a product of its own: [rows, h] x [h, h].
  b.layer().operators.back().product = {
      1, {others}, {}, {static_cast<double>(hidden.size), false}, {static_cast<double>(hidden.size), false}};
  const TensorId mean = b.stream("mean of streams");
  b.add_operator(OperatorKind::elementwise, "mean of streams", Module::other, {streams, projected}, {mean}, {});
  return mean;
}

}  // namespace

Layer build_head(const Architecture& arch, const Implementation& implementation, const Tower& tower) {
  LayerBuilder b(arch, implementation, LayerKind::head, "head", false);
  const Extent hidden{arch.hidden};
  const Extent vocabulary{arch.vocabulary, Axis::vocabulary};
  TensorId x = arch.streams > 1 ? b.tensor("input", {{arch.streams}, hidden}) : b.stream("input");
  b.layer().input = x;
  if (arch.streams > 1) x = mean_of_streams(b, x);
  if (tower.final_norm) {
    x = b.norm("final norm", x, tower.final_norm_kind, tower.final_norm_weight, tower.final_norm_bias, "final.norm");
  }
  std::int64_t width = arch.hidden;
  if (arch.embedding_width > 0) width = arch.embedding_width;
  if (arch.embedding_width > 0 && !arch.narrow_tables) {
    x = b.matmul("project out", Module::other, x, {b.tensor("projected", {{width}})},
                 {matrix("head.projection", {{width}, hidden})});
  }
  if (arch.head_transform) {
    const Extent out{width};
    const TensorId dense = b.matmul(
        "transform", Module::other, x, {b.tensor("transform out", {out})},
        arch.head_transform_bias
            ? std::vector<Weight>{matrix("head.transform", {out, hidden}), matrix("head.transform_bias", {out})}
            : std::vector<Weight>{matrix("head.transform", {out, hidden})});
    const TensorId active = b.tensor("gelu out", {out});
    b.add_operator(OperatorKind::elementwise, "gelu", Module::activation, {dense}, {active}, {dense});
    x = b.norm("transform norm", active, arch.head_norm, true,
               arch.head_norm == NormKind::layer && arch.head_transform_bias, "head.norm");
  }
  const TensorId logits = b.tensor("logits", {vocabulary});
  std::vector<Weight> weights = {matrix("head.weight", {vocabulary, {width}})};
  if (arch.tied_embeddings) weights.front().tied_to = kTokenTable;
  if (arch.head_bias) weights.push_back(matrix("head.bias", {vocabulary}));
  b.matmul("lm head", Module::other, x, {logits}, std::move(weights));
  TensorId scores = logits;
  if (b.huggingface() && huggingface_habits(arch.family).scales_logits) {
    scores = b.tensor("scaled logits", {vocabulary});
    b.add_operator(OperatorKind::elementwise, "scale logits", Module::other, {logits}, {scores}, {});
  }
  const TensorId probabilities = b.tensor("softmax fp32", {vocabulary}, Rows::tokens, 4);
  b.add_operator(OperatorKind::loss, "cross entropy", Module::other, {scores},
                 {b.tensor("loss", {{1}}, Rows::tokens, 4)}, {probabilities});
  if (implementation.mtp_layers > 0) add_further_losses(b, width);
  return b.take();
}

}  // namespace nest::model
