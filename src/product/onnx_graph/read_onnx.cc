#ifdef NEST_ONNX

#include "onnx_graph/read_onnx.h"
#include "base/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "onnx_graph/onnx_ops.h"
#include "onnx_graph/onnx_patterns.h"
#include "onnx_graph/onnx_shapes.h"
#include "onnx_graph/onnx_wire.h"

namespace nest::onnx_graph {
namespace {

std::optional<graph::DataType> data_type(int type) {
  switch (type) {
    case onnx::TensorProto::FLOAT: return graph::DataType::float32;
    case onnx::TensorProto::DOUBLE: return graph::DataType::float64;
    case onnx::TensorProto::FLOAT16: return graph::DataType::float16;
    case onnx::TensorProto::BFLOAT16: return graph::DataType::bfloat16;
    case onnx::TensorProto::INT64:
    case onnx::TensorProto::UINT64: return graph::DataType::int64;
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32: return graph::DataType::int32;
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16: return graph::DataType::int16;
    case onnx::TensorProto::INT8: return graph::DataType::int8;
    case onnx::TensorProto::UINT8: return graph::DataType::uint8;
    case onnx::TensorProto::BOOL: return graph::DataType::boolean;
    case onnx::TensorProto::COMPLEX64: return graph::DataType::complex64;
    case onnx::TensorProto::COMPLEX128: return graph::DataType::complex128;
    default: return std::nullopt;
  }
}

// "/model/layers.0/self_attn/q_proj/MatMul" -> "model.layers.0.self_attn.q_proj"
std::string module_of(const std::string& node) {
  if (node.empty() || node.front() != '/') return {};
  const std::size_t end = node.rfind('/');
  std::string path = node.substr(1, end > 0 ? end - 1 : 0);
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

class OnnxReader {
 public:
  OnnxReader(const std::string& source, const std::string& name, const std::string& bytes) : source_(source) {
    if (bytes.size() > kLargestOnnxBytes) {
      fail(fmt::format(
          "{} bytes are too many; allowed are {}. Export it with external data: only shapes are needed here",
          bytes.size(), kLargestOnnxBytes));
    }
    constexpr std::size_t kMostEntries = 4'000'000;
    if (count_onnx_entries(bytes, kMostEntries) > kMostEntries) {
      fail(fmt::format("it has more than {} fields; a graph of layers has thousands", kMostEntries));
    }
    if (!model_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model_.has_graph()) {
      fail("it is no ONNX model, or a part of one");
    }
    graph_.name = name;
    graph_.tool = clip(model_.producer_name() + " " + model_.producer_version(), 80);
    graph_.module_class = clip(model_.graph().name(), 80);
  }

  graph::RawGraph run() {
    shapes_ = infer_shapes(model_, source_);
    graph_.batch = shapes_.batch;
    graph_.sequence = shapes_.sequence;
    graph_.warnings = shapes_.warnings;
    read_initializers();
    for (const onnx::ValueInfoProto& input : model_.graph().input()) {
      if (!weight_of_.contains(input.name()) && !constants_.contains(input.name())) {
        graph_.inputs.push_back(tensor(input.name(), "the graph's input"));
      }
    }
    for (int i = 0; i < model_.graph().node_size(); ++i) add_node(i);
    for (const onnx::ValueInfoProto& output : model_.graph().output()) {
      const auto known = tensor_of_.find(output.name());
      if (known != tensor_of_.end()) graph_.outputs.push_back(known->second);
    }
    for (const auto& [type, count] : unknown_) {
      graph_.warnings.push_back(fmt::format("{}: unknown, costed by its bytes ({} times)", clip(type, 40), count));
    }
    if (graph_.operators.empty()) fail("no operator of it works on data");
    graph::validate(graph_, source_);
    join_patterns(graph_);
    graph::validate(graph_, source_);
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{}: {}", source_, message));
  }

  struct Held {
    int weight = -1;  // index, or -1: a constant that nothing is trained of
    bool transposed = false;
    std::size_t rank = 0;
    bool literal = false;  // written into the graph, not among its initializers
  };

  void read_initializers() {
    for (const onnx::TensorProto& tensor : model_.graph().initializer()) {
      if (!hold(tensor, tensor.name())) constants_.insert(tensor.name());
    }
    for (const onnx::NodeProto& node : model_.graph().node()) {
      if (node.op_type() != "Constant" || node.output_size() != 1) continue;
      const onnx::AttributeProto* value = attribute(node, "value");
      if (!value || !value->has_t() || constants_.contains(node.output(0))) continue;
      if (hold(value->t(), node.output(0))) weight_of_[node.output(0)].literal = true;
    }
  }

  // Floating numbers, more than one, may be trained.
  bool hold(const onnx::TensorProto& tensor, const std::string& name) {
    const auto type = data_type(tensor.data_type());
    std::int64_t elements = 1;
    for (const std::int64_t size : tensor.dims())
      elements = size == 0 ? 0 : std::min(elements * std::min<std::int64_t>(size, 1 << 20), std::int64_t{1} << 40);
    if (!type || !graph::is_floating(*type) || tensor.dims_size() == 0 || elements <= 1) return false;
    graph::RawWeight weight;
    weight.name = name;
    weight.shape.assign(tensor.dims().begin(), tensor.dims().end());
    weight.type = *type;
    held_.push_back(std::move(weight));
    weight_of_[name] = {static_cast<int>(held_.size()) - 1, false, at(tensor.dims_size())};
    return true;
  }

  // Weights are listed when they are first used.
  int use(int held, const graph::RawOperator& op) {
    const graph::RawWeight& weight = held_[at(held)];
    const auto [place, fresh] = used_.try_emplace(held, static_cast<int>(graph_.weights.size()));
    // Exporters write vectors of equal values (biases of zeros, scales of ones) once; no model shares them.
    const bool vector = weight.shape.size() == 1;
    if (!fresh && !vector) return place->second;
    graph_.weights.push_back(weight);
    // Named after the module that uses it, as PyTorch does; exporters give folded ones numbers.
    if (!op.module.empty() && !weight.name.starts_with(op.module + ".")) {
      graph_.weights.back().name = op.module + (vector && !op.weights.empty() ? ".bias" : ".weight");
    }
    return static_cast<int>(graph_.weights.size()) - 1;
  }

  int tensor(const std::string& name, const std::string& where) {
    const auto known = tensor_of_.find(name);
    if (known != tensor_of_.end()) return known->second;
    const auto shape = shapes_.tensors.find(name);
    if (shape == shapes_.tensors.end()) {
      fail(fmt::format(
          "{}: tensor {} has no shape, and none can be inferred; run onnx-simplifier on the model, or trace it "
          "with Python's nest.trace",
          where, clip(name, 60)));
    }
    graph::RawTensor made;
    made.name = name;
    made.shape = shape->second.shape;
    const auto type = data_type(shape->second.type);
    if (!type) fail(fmt::format("{}: tensor {} has a type that is no number", where, clip(name, 60)));
    made.type = *type;
    graph_.tensors.push_back(std::move(made));
    return tensor_of_[name] = static_cast<int>(graph_.tensors.size()) - 1;
  }

  static const onnx::AttributeProto* attribute(const onnx::NodeProto& node, const char* name) {
    for (const onnx::AttributeProto& each : node.attribute()) {
      if (each.name() == name) return &each;
    }
    return nullptr;
  }
  static std::int64_t integer(const onnx::NodeProto& node, const char* name, std::int64_t otherwise) {
    const onnx::AttributeProto* found = attribute(node, name);
    return found ? found->i() : otherwise;
  }

  // A weight that is only turned around or renamed stays a weight.
  bool passes_weight(const onnx::NodeProto& node) {
    if (node.input_size() < 1 || node.output_size() < 1) return false;
    const auto held = weight_of_.find(node.input(0));
    const std::string& type = node.op_type();
    if (held == weight_of_.end() || (type != "Transpose" && type != "Identity" && type != "Cast")) return false;
    Held passed = held->second;
    if (type == "Transpose") {
      if (passed.rank != 2) return false;
      passed.transposed = !passed.transposed;
    }
    weight_of_[node.output(0)] = passed;
    return true;
  }

  // Identity, dropout outside training, a cast to the type it has: the same tensor under another name.
  bool does_nothing(const onnx::NodeProto& node) {
    const std::string& type = node.op_type();
    if ((type != "Identity" && type != "Cast" && type != "Dropout") || node.input_size() < 1 || node.output_size() < 1)
      return false;
    const auto in = tensor_of_.find(node.input(0));
    if (in == tensor_of_.end() || node.output(0).empty() || tensor_of_.contains(node.output(0))) return false;
    if (type == "Cast") {
      const auto to = data_type(static_cast<int>(integer(node, "to", 0)));
      if (to != graph_.tensors[at(in->second)].type) return false;
    }
    tensor_of_[node.output(0)] = in->second;
    return true;
  }

  void add_node(int index) {
    const onnx::NodeProto& node = model_.graph().node(index);
    const std::string where = fmt::format("node {} ({} {})", index, clip(node.op_type(), 40), clip(node.name(), 60));
    if (makes_constant(node.op_type()) || passes_weight(node) || does_nothing(node)) return;
    graph::RawOperator op;
    op.name = node.name().empty() ? fmt::format("{}_{}", node.op_type(), index) : module_name(node);
    op.module = module_of(node.name());
    std::vector<Held> weights;
    for (const std::string& in : node.input()) {
      if (in.empty()) continue;
      if (is_position_mask(in)) op.attributes.causal = true;
      if (constants_.contains(in)) continue;
      const auto held = weight_of_.find(in);
      if (held != weight_of_.end()) {
        weights.push_back(held->second);
      } else if (known_constant(in)) {
        continue;
      } else {
        op.inputs.push_back(tensor(in, where));
      }
    }
    const auto is_constant = [&](const Held& held) { return held.literal && is_vector(held); };
    if (op.inputs.empty() && std::all_of(weights.begin(), weights.end(), is_constant)) {
      // Made of constants alone; a vector among them is one, too (frequencies of a rotation).
      for (const std::string& out : node.output()) derived_.insert(out);
      return;
    }
    for (const std::string& out : node.output()) {
      const bool optional = !out.empty() && shapes_.tensors.find(out) == shapes_.tensors.end() && !op.outputs.empty();
      if (!out.empty() && !optional) op.outputs.push_back(fresh_tensor(out, where));
    }
    if (op.outputs.empty()) fail(where + ": it makes no tensor");
    shape(node, op, weights, where);
    graph_.operators.push_back(std::move(op));
  }

  // A constant of sequence x sequence, the batch aside, that scores are added to or chosen by.
  bool is_position_mask(const std::string& name) {
    if (!constants_.contains(name) && !weight_of_.contains(name) && !known_constant(name)) return false;
    const auto found = shapes_.tensors.find(name);
    if (found == shapes_.tensors.end() || found->second.shape.size() < 2) return false;
    const auto& shape = found->second.shape;
    return shape[shape.size() - 1].sequence == 1 && shape[shape.size() - 2].sequence == 1;
  }

  int fresh_tensor(const std::string& name, const std::string& where) {
    if (tensor_of_.contains(name))
      fail(fmt::format("{}: tensor {} is made twice, or read before it is made", where, clip(name, 60)));
    return tensor(name, where);
  }

  // Outputs of nodes that make constants, and of those that only read such.
  bool known_constant(const std::string& name) {
    if (derived_.contains(name)) return true;
    if (!constant_makers_read_) {
      constant_makers_read_ = true;
      for (const onnx::NodeProto& node : model_.graph().node()) {
        if (!makes_constant(node.op_type())) continue;
        for (const std::string& out : node.output()) derived_.insert(out);
      }
    }
    return derived_.contains(name);
  }

  static std::string module_name(const onnx::NodeProto& node) {
    const std::string module = module_of(node.name());
    return module.empty() ? node.name() : module + "." + node.op_type();
  }

  void list_weights(graph::RawOperator& op, const std::vector<Held>& weights) {
    for (const Held& held : weights) op.weights.push_back(use(held.weight, op));
  }

  bool is_vector(const Held& held) const {
    const auto& sizes = raw(held).shape;
    return std::count_if(sizes.begin(), sizes.end(), [](std::int64_t size) { return size > 1; }) <= 1;
  }

  const graph::RawWeight& raw(const Held& held) const { return held_[at(held.weight)]; }

  void shape(const onnx::NodeProto& node, graph::RawOperator& op, const std::vector<Held>& weights,
             const std::string& where) {
    const std::string& type = node.op_type();
    if (type == "MatMul" || type == "Gemm") {
      shape_product(node, op, weights);
      return;
    }
    if (type == "Conv" || type == "ConvTranspose") {
      op.op = weights.empty() ? graph::RawOp::unknown : graph::RawOp::conv;
      if (weights.empty()) ++unknown_[type + " with a computed weight"];
      op.attributes.transposed = type == "ConvTranspose";
      op.attributes.groups = integer(node, "group", 1);
      if (const auto* kernel = attribute(node, "kernel_shape"))
        op.attributes.kernel.assign(kernel->ints().begin(), kernel->ints().end());
      list_weights(op, weights);
      return;
    }
    if (type == "Gather" && !weights.empty() && raw(weights.front()).shape.size() == 2) {
      op.op = graph::RawOp::embedding;
      list_weights(op, {weights.front()});
      return;
    }
    const auto known = known_ops().find(type);
    if (known == known_ops().end()) {
      op.op = graph::RawOp::unknown;
      ++unknown_[type];
      list_weights(op, weights);
      return;
    }
    op.op = known->second.op;
    op.attributes.kind = known->second.kind;
    if (op.op == graph::RawOp::view && op.inputs.empty()) op.op = graph::RawOp::copy;
    if (type == "Add" && op.inputs.size() == 2) op.op = graph::RawOp::add;
    if (type == "BatchNormalization" && weights.size() > 2) {
      list_weights(op, {weights[0], weights[1]});
    } else if (op.op != graph::RawOp::resize) {  // which reads factors
      for (const Held& held : weights) {
        if (!is_mask(type, op, held)) op.weights.push_back(use(held.weight, op));
      }
    }
    set_saves(op, known->second.keeps);
    static_cast<void>(where);
  }

  // A table of sequence x sequence, the same for all heads, that scores are added to, chosen or multiplied by is a
  // mask, not a parameter; so is one that such a table is cut out of.
  bool is_mask(const std::string& type, const graph::RawOperator& op, const Held& held) const {
    const bool cut = type == "Slice";
    if (!cut && type != "Add" && type != "Where" && type != "Mul") return false;
    const auto& sizes = raw(held).shape;
    const auto& scores = graph_.tensors[at(op.outputs.front())].shape;
    if (sizes.size() < 2 || scores.size() < 2) return false;
    const std::int64_t columns = sizes.back();
    if (columns <= 1 || sizes[sizes.size() - 2] != columns || (!cut && columns != shapes_.sequence)) return false;
    if (std::any_of(sizes.begin(), sizes.end() - 2, [](std::int64_t size) { return size != 1; })) return false;
    return std::all_of(scores.end() - 2, scores.end(),
                       [](const graph::Dimension& each) { return each.sequence == 1 && each.coefficient == 1; });
  }

  void set_saves(graph::RawOperator& op, Keeps keeps) const {
    const bool scales = op.attributes.kind == "mul" || op.attributes.kind == "div";
    switch (keeps) {
      case Keeps::nothing: op.saves = std::vector<int>{}; break;
      case Keeps::inputs:
        // A product with a constant needs nothing but the constant.
        op.saves = scales && op.inputs.size() == 1 && op.weights.empty() ? std::vector<int>{} : op.inputs;
        break;
      case Keeps::outputs: op.saves = op.outputs; break;
      case Keeps::by_rule: break;
    }
  }

  void shape_product(const onnx::NodeProto& node, graph::RawOperator& op, std::vector<Held> weights) {
    const bool gemm = node.op_type() == "Gemm";
    const bool matrix = !weights.empty() && raw(weights.front()).shape.size() == 2;
    const bool second = node.input_size() > 1 && weight_of_.contains(node.input(1));
    if (matrix && second && op.inputs.size() == 1) {
      op.op = graph::RawOp::linear;
      // MatMul and Gemm hold W as (in, out).
      op.attributes.transposed = !weights.front().transposed != (gemm && integer(node, "transB", 0) != 0);
      list_weights(op, weights);
      return;
    }
    if (!weights.empty() && raw(weights.front()).shape.size() == 3 && second) {
      op.op = graph::RawOp::expert_matmul;
      list_weights(op, weights);
      return;
    }
    if (!gemm && matrix && !second && op.inputs.size() == 1 && weights.size() == 1 && multiply_from_left(op, weights)) {
      return;
    }
    op.op = op.inputs.size() >= 2 ? graph::RawOp::matmul : graph::RawOp::unknown;
    if (op.op == graph::RawOp::unknown) ++unknown_[node.op_type() + " with a computed weight"];
    op.attributes.transpose_a = gemm && integer(node, "transA", 0) != 0;
    op.attributes.transpose_b = gemm && integer(node, "transB", 0) != 0;
    list_weights(op, weights);
  }

  // y = W x is y^T = x^T W^T, and turning matrices around costs nothing.
  bool multiply_from_left(graph::RawOperator& op, const std::vector<Held>& weights) {
    const int x = op.inputs.front(), y = op.outputs.front();
    if (graph_.tensors[at(x)].shape.size() < 2) return false;
    graph::RawOperator turn = op;
    turn.name += ".turned";
    turn.op = graph::RawOp::view;
    turn.saves = std::vector<int>{};
    turn.outputs = {turned(x)};
    graph::RawOperator product = op;
    product.op = graph::RawOp::linear;
    product.name += ".product";
    product.inputs = turn.outputs;
    product.outputs = {turned(y)};
    product.attributes.transposed = weights.front().transposed;
    list_weights(product, weights);
    op.op = graph::RawOp::view;
    op.saves = std::vector<int>{};
    op.inputs = product.outputs;
    graph_.operators.push_back(std::move(turn));
    graph_.operators.push_back(std::move(product));
    return true;
  }

  // The tensor with its last two dimensions exchanged.
  int turned(int tensor) {
    graph::RawTensor made = graph_.tensors[at(tensor)];
    made.name = fmt::format("{}.turned{}", made.name, graph_.tensors.size());
    std::swap(made.shape[made.shape.size() - 1], made.shape[made.shape.size() - 2]);
    graph_.tensors.push_back(std::move(made));
    return static_cast<int>(graph_.tensors.size()) - 1;
  }

  const std::string& source_;
  onnx::ModelProto model_;
  graph::RawGraph graph_;
  OnnxShapes shapes_;
  std::vector<graph::RawWeight> held_;
  std::map<int, int> used_;
  std::map<std::string, Held> weight_of_;
  std::set<std::string> constants_;
  std::set<std::string> derived_;
  bool constant_makers_read_ = false;
  std::map<std::string, int> tensor_of_;
  std::map<std::string, int> unknown_;
};

}  // namespace

bool onnx_supported() { return true; }

graph::RawGraph read_onnx(const std::string& source, const std::string& name, const std::string& bytes) {
  return OnnxReader(source, name, bytes).run();
}

}  // namespace nest::onnx_graph

#endif
