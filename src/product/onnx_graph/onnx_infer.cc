#include "onnx_graph/onnx_infer.h"

#ifdef NEST_ONNX

#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>

#include "base/index.h"
#include "onnx_graph/onnx_rules.h"
#include "onnx_graph/onnx_values.h"

namespace nest::onnx_graph {
namespace {

constexpr int kNewestOpset = 1000;

class Inference {
 public:
  explicit Inference(onnx::ModelProto& model) : model_(model) {
    for (const onnx::OperatorSetIdProto& set : model.opset_import()) {
      const auto version = static_cast<int>(std::clamp<std::int64_t>(set.version(), 1, kNewestOpset));
      opsets_[set.domain() == "ai.onnx" ? "" : set.domain()] = version;
    }
  }

  InferredShapes run() {
    onnx::GraphProto& graph = *model_.mutable_graph();
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      onnx::TypeProto type;
      type.mutable_tensor_type()->set_elem_type(tensor.data_type());
      auto* shape = type.mutable_tensor_type()->mutable_shape();
      for (const std::int64_t size : tensor.dims()) shape->add_dim()->set_dim_value(size);
      set_type(tensor.name(), std::move(type));
      if (auto value = read_value(tensor)) set_value(tensor.name(), std::move(*value));
    }
    for (const onnx::ValueInfoProto& input : graph.input()) {
      if (!types_.contains(input.name())) set_type(input.name(), input.type());
    }
    for (onnx::NodeProto& node : *graph.mutable_node()) visit(node);
    return std::move(shapes_);
  }

 private:
  void set_type(const std::string& name, onnx::TypeProto type) {
    if (name.empty() || types_.contains(name)) return;
    note_shape(name, type);
    storage_.push_back(std::move(type));
    types_[name] = &storage_.back();
  }

  void note_shape(const std::string& name, const onnx::TypeProto& type) {
    if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return;
    InferredTensor tensor;
    tensor.type = type.tensor_type().elem_type();
    for (const auto& dim : type.tensor_type().shape().dim()) {
      if (!dim.has_dim_value() || dim.dim_value() < 0 || dim.dim_value() > kLargestDimension) return;
      tensor.shape.push_back(dim.dim_value());
    }
    shapes_[name] = std::move(tensor);
  }

  void set_value(const std::string& name, OnnxValue value) {
    if (name.empty() || values_.contains(name)) return;
    tensors_.push_back(write_value(value));
    data_[name] = &tensors_.back();
    values_[name] = std::move(value);
  }

  void visit(onnx::NodeProto& node) {
    const KnownShape shape_of = [this](const std::string& name) -> const std::vector<std::int64_t>* {
      const auto found = shapes_.find(name);
      return found == shapes_.end() ? nullptr : &found->second.shape;
    };
    auto value = node.output_size() == 1 ? evaluate_node(node, values_, shape_of) : std::nullopt;
    if (value) {
      onnx::TypeProto type;
      type.mutable_tensor_type()->set_elem_type(value->type);
      auto* shape = type.mutable_tensor_type()->mutable_shape();
      if (value->rank == 1) shape->add_dim()->set_dim_value(static_cast<std::int64_t>(value->values.size()));
      set_type(node.output(0), std::move(type));
      set_value(node.output(0), std::move(*value));
      return;
    }
    infer_types(node);
    if (node.op_type() == "Einsum") infer_einsum(node);
    if (node.output_size() == 1 && !shape_of(node.output(0))) broadcast(node);
  }

  void infer_einsum(const onnx::NodeProto& node) {
    std::vector<std::vector<std::int64_t>> inputs;
    int type = 0;
    for (const std::string& in : node.input()) {
      const auto known = shapes_.find(in);
      if (known == shapes_.end()) return;
      inputs.push_back(known->second.shape);
      type = known->second.type;
    }
    const auto shape = einsum_shape(node, inputs);
    if (!shape || node.output_size() != 1) return;
    set_shape(node.output(0), type, *shape);
  }

  void set_shape(const std::string& name, int type, const std::vector<std::int64_t>& shape) {
    onnx::TypeProto made;
    made.mutable_tensor_type()->set_elem_type(type);
    auto* dims = made.mutable_tensor_type()->mutable_shape();
    for (const std::int64_t size : shape) dims->add_dim()->set_dim_value(size);
    set_type(name, std::move(made));
  }

  // Pointwise operators that their schema defines by others have no rule of their own.
  void broadcast(const onnx::NodeProto& node) {
    static const std::set<std::string> kCompares = {"LessOrEqual", "GreaterOrEqual"};
    static const std::set<std::string> kPointwise = {"Celu", "HardSwish", "Clip", "Mish", "Gelu", "Softsign", "PRelu"};
    const bool compares = kCompares.contains(node.op_type());
    if ((!compares && !kPointwise.contains(node.op_type())) || types_.contains(node.output(0))) return;
    std::vector<std::int64_t> shape;
    int type = 0;
    for (const std::string& in : node.input()) {
      if (in.empty()) continue;
      const auto known = shapes_.find(in);
      if (known == shapes_.end()) return;
      std::vector<std::int64_t> other = known->second.shape;
      if (type == 0) type = known->second.type;
      if (other.size() > shape.size()) std::swap(other, shape);
      for (std::size_t i = 0; i < other.size(); ++i) {
        std::int64_t& size = shape[shape.size() - 1 - i];
        const std::int64_t each = other[other.size() - 1 - i];
        if (size != each && size != 1 && each != 1) return;
        size = std::max(size, each);
      }
    }
    set_shape(node.output(0), compares ? static_cast<int>(onnx::TensorProto::BOOL) : type, shape);
  }

  // Rules of the operator's schema. A rule that objects leaves the shape open: who needs it says so.
  void infer_types(onnx::NodeProto& node) {
    const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
    const auto version = opsets_.find(domain);
    const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(
        node.op_type(), version == opsets_.end() ? kNewestOpset : version->second, domain);
    if (!schema || !schema->has_type_and_shape_inference_function()) return;
    if (node.input_size() < schema->min_input() || node.input_size() > schema->max_input()) return;
    if (node.output_size() < schema->min_output() || node.output_size() > schema->max_output()) return;
    if (!domain.empty() || !safe_to_infer(node, schema->min_input())) return;
    onnx::shape_inference::InferenceContextImpl context(node, types_, data_, {});
    try {
      schema->GetTypeAndShapeInferenceFunction()(context);
    } catch (const std::exception&) {
      return;
    }
    for (int i = 0; i < node.output_size(); ++i) {
      const onnx::TypeProto& type = *context.getOutputType(at(i));
      if (type.has_tensor_type() && type.tensor_type().has_shape()) set_type(node.output(i), type);
    }
  }

  bool safe_to_infer(const onnx::NodeProto& node, int needed) const {
    std::vector<int> ranks;
    for (int i = 0; i < node.input_size(); ++i) {
      const auto known = types_.find(node.input(i));
      const bool shaped =
          known != types_.end() && known->second->has_tensor_type() && known->second->tensor_type().has_shape();
      if (!shaped && (i < needed || known != types_.end())) return false;
      ranks.push_back(shaped ? known->second->tensor_type().shape().dim_size() : -1);
    }
    std::vector<std::int64_t> axes;
    const std::string& type = node.op_type();
    const int place = type == "Slice"                                                          ? 3
                      : type == "Unsqueeze" || type == "Squeeze" || type.starts_with("Reduce") ? 1
                                                                                               : 0;
    if (place > 0 && place < node.input_size()) {
      const auto known = values_.find(node.input(place));
      if (known != values_.end()) {
        for (const double axis : known->second.values) {
          axes.push_back(static_cast<std::int64_t>(std::clamp(axis, -0x1p40, 0x1p40)));
        }
      }
    }
    return may_infer(node, ranks, axes);
  }

  onnx::ModelProto& model_;
  std::map<std::string, int> opsets_;
  std::deque<onnx::TypeProto> storage_;
  std::deque<onnx::TensorProto> tensors_;
  std::unordered_map<std::string, onnx::TypeProto*> types_;
  std::unordered_map<std::string, const onnx::TensorProto*> data_;
  std::map<std::string, OnnxValue> values_;
  InferredShapes shapes_;
};

}  // namespace

InferredShapes infer_at(onnx::ModelProto& model) { return Inference(model).run(); }

}  // namespace nest::onnx_graph

#endif
