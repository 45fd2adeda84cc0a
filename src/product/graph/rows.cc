#include "graph/rows.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "graph/lists.h"

namespace nest::graph {
namespace {

constexpr double kWidestRow = 0x1p52;

}  // namespace

LinearSize linear_size(const RawGraph& graph, const Node& node) {
  const auto& shape = graph.weights[at(node.weights.front())].shape;
  switch (node.op) {
    case RawOp::linear:
      return node.attributes.transposed ? LinearSize{shape[1], shape[0]} : LinearSize{shape[0], shape[1]};
    case RawOp::expert_matmul: return {shape.back(), shape[shape.size() - 2]};
    case RawOp::conv: {
      std::int64_t taps = 1;
      for (std::size_t i = 2; i < shape.size(); ++i) taps *= shape[i];
      if (node.attributes.transposed)
        return {shape[1] * node.attributes.groups, shape[0] / node.attributes.groups * taps};
      return {shape[0], shape[1] * taps};
    }
    default: return {};
  }
}

RowSizes::RowSizes(const Flow& flow, int activation_bytes)
    : flow_(flow), activation_bytes_(activation_bytes), row_(flow.tensors.size(), 0) {
  double single = 0, half = 0;
  for (const RawWeight& weight : flow.graph->weights) {
    double elements = 1;
    for (const std::int64_t size : weight.shape) elements *= real(size);
    (bytes_of(weight.type) == 4 ? single : half) += elements;
  }
  single_ = single > half || flow.graph->weights.empty();
  for (const Node& node : flow.nodes) {
    for (const int out : node.outputs) has_sequence_ = has_sequence_ || flow.size(out).sequence > 0;
  }
  hint_products();
  fill();
}

void RowSizes::hint(int id, double row) {
  const double rounded = std::round(row);
  if (row_[at(id)] == 0 && rounded >= 1 && rounded < kWidestRow && std::abs(rounded - row) < 1e-6 * row) {
    row_[at(id)] = static_cast<std::int64_t>(rounded);
  }
}

// Results of products, attentions, and then what they read.
void RowSizes::hint_products() {
  const auto is_product = [](const Node& node) {
    return (node.op == RawOp::linear || node.op == RawOp::conv || node.op == RawOp::expert_matmul) &&
           !node.weights.empty();
  };
  for (const Node& node : flow_.nodes) {
    if (!is_product(node)) continue;
    double all = 0;
    for (const int out : node.outputs) all += flow_.size(out).coefficient;
    const auto columns = real(linear_size(*flow_.graph, node).out);
    for (const int out : node.outputs) hint(out, columns * flow_.size(out).coefficient / all);
  }
  for (const Node& node : flow_.nodes) {
    if (node.op != RawOp::attention || node.inputs.size() < 3) continue;
    const model::AttentionShape& a = node.attention;
    hint(node.inputs[0], real(a.heads.size) * real(a.qk_dim));
    hint(node.inputs[1], real(a.kv_heads.size) * real(a.qk_dim));
    hint(node.inputs[2], real(a.kv_heads.size) * real(a.value_dim));
    if (!node.outputs.empty()) hint(node.outputs[0], real(a.heads.size) * real(a.value_dim));
  }
  for (const Node& node : flow_.nodes) {
    if (!is_product(node) || node.inputs.empty()) continue;
    const LinearSize size = linear_size(*flow_.graph, node);
    if (node.op != RawOp::conv) {
      hint(node.inputs.front(), real(size.in));
      continue;
    }
    const auto& shape = flow_.tensors[at(node.inputs.front())].shape;
    if (shape.size() > 1 && shape[1].constant()) hint(node.inputs.front(), shape[1].coefficient);
  }
}

void RowSizes::fill() {
  for (const Node& node : flow_.nodes) {
    for (const int out : node.outputs) {
      if (row_[at(out)] > 0) continue;
      for (const int in : node.inputs) {
        if (row_[at(in)] > 0 && std::abs(flow_.size(in).coefficient - flow_.size(out).coefficient) < 0.5) {
          row_[at(out)] = row_[at(in)];
          break;
        }
      }
    }
  }
  for (std::size_t t = 0; t < row_.size(); ++t) {
    if (row_[t] > 0) continue;
    double constants = 1;
    const auto& shape = flow_.tensors[t].shape;
    if (has_sequence_) {
      for (const Dimension& dimension : shape) constants *= dimension.constant() ? dimension.coefficient : 1;
    } else if (shape.size() >= 4 && shape[1].constant()) {
      constants = shape[1].coefficient;
    } else if (!shape.empty() && shape.back().constant()) {
      constants = shape.back().coefficient;
    }
    row_[t] = std::max<std::int64_t>(1, std::llround(std::min(constants, kWidestRow)));
  }
}

int RowSizes::element_bytes(int id) const {
  const DataType type = flow_.tensors[at(id)].type;
  const bool listed = at(id) < flow_.graph->tensors.size();
  if (type == DataType::float16 || type == DataType::bfloat16) return activation_bytes_;
  if (type == DataType::float32 && single_ && listed) return activation_bytes_;
  return bytes_of(type);
}

model::Tensor RowSizes::tensor(int id, const std::string& name) const {
  Dimension size = flow_.size(id);
  if (size.batch > 1) size.coefficient *= std::pow(real(flow_.graph->batch), size.batch - 1);
  if (size.sequence > 2) size.coefficient *= std::pow(real(flow_.graph->sequence), size.sequence - 2);
  const bool batch = size.batch > 0;
  model::Tensor tensor;
  tensor.name = name;
  switch (std::min(size.sequence, 2)) {
    case 0:
      tensor.rows = !batch ? model::Rows::single : has_sequence_ ? model::Rows::samples : model::Rows::tokens;
      break;
    case 1: tensor.rows = batch ? model::Rows::tokens : model::Rows::positions; break;
    default: tensor.rows = batch ? model::Rows::pairs : model::Rows::squared;
  }
  const std::int64_t row = row_[at(id)];
  tensor.width = {{row}};
  tensor.rows_per_unit = size.coefficient / real(row);
  tensor.element_bytes = element_bytes(id);
  return tensor;
}

}  // namespace nest::graph
