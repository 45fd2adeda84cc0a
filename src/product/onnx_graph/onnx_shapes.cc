#include "onnx_graph/onnx_shapes.h"

#ifdef NEST_ONNX

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "onnx_graph/onnx_infer.h"

namespace nest::onnx_graph {
namespace {

constexpr std::int64_t kBatch = 2, kSequence = 128;  // where the file leaves them open
constexpr std::int64_t kLargestAttribute = std::int64_t{1} << 31;
constexpr std::size_t kSmallInitializer = 4096;  // bytes: constants that shapes may depend on
constexpr int kFewNumbers = 1024;
constexpr int kMostNodes = 200'000;

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

bool has_word(const std::string& text, std::initializer_list<const char*> words) {
  const std::string lower = to_lower(text);
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return lower.find(word) != std::string::npos; });
}

bool is_integer(int type) {
  return type == onnx::TensorProto::INT64 || type == onnx::TensorProto::INT32 || type == onnx::TensorProto::BOOL;
}

class ShapeFinder {
 public:
  ShapeFinder(onnx::ModelProto& model, const std::string& source) : model_(model), source_(source) {}

  OnnxShapes run() {
    check_nodes();
    drop_contents();
    find_roles();
    const Shapes base = infer(result_.batch, result_.sequence);
    Shapes more_batch, more_sequence;
    if (open_batch_ || fixed_batch_ > 0) more_batch = infer(2 * result_.batch, result_.sequence);
    if (open_sequence_ || fixed_sequence_ > 0) more_sequence = infer(result_.batch, 2 * result_.sequence);
    batch_grows_ = open_batch_ || follows(base, more_batch);
    sequence_grows_ = open_sequence_ || follows(base, more_sequence);
    for (const auto& [name, shape] : base) {
      const auto b = more_batch.find(name);
      const auto s = more_sequence.find(name);
      auto& tensor = result_.tensors[name];
      for (std::size_t d = 0; d < shape.size(); ++d) {
        tensor.shape.push_back(dimension(shape, d, b == more_batch.end() ? nullptr : &b->second,
                                         s == more_sequence.end() ? nullptr : &s->second));
      }
      tensor.type = types_.at(name);
    }
    if (!has_sequence_) result_.sequence = 1;
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{}: {}", source_, message));
  }

  // What shape inference would stumble over.
  void check_nodes() const {
    const onnx::GraphProto& graph = model_.graph();
    if (graph.node_size() == 0) fail("it is no ONNX model, or one without operators");
    if (graph.node_size() > kMostNodes) fail(fmt::format("{} operators are too many", graph.node_size()));
    for (int i = 0; i < graph.node_size(); ++i) {
      const onnx::NodeProto& node = graph.node(i);
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g() || attribute.graphs_size() > 0) {
          fail(fmt::format("node {} ({} {}): control flow cannot be planned; export the model for one fixed path", i,
                           clip(node.op_type(), 40), clip(node.name(), 60)));
        }
        check_attribute(node, i, attribute);
      }
    }
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      check_sizes(tensor, fmt::format("initializer {}", clip(tensor.name(), 60)));
    }
  }

  void check_sizes(const onnx::TensorProto& tensor, const std::string& where) const {
    for (const std::int64_t size : tensor.dims()) {
      if (size < 0 || size > kLargestDimension) fail(fmt::format("{}: {} is out of range for a size", where, size));
    }
  }

  void check_attribute(const onnx::NodeProto& node, int i, const onnx::AttributeProto& attribute) const {
    static const std::set<std::string> kPositive = {"strides", "dilations", "kernel_shape",
                                                    "group",   "blocksize", "num_outputs"};
    const auto check = [&](std::int64_t value) {
      const std::int64_t low = kPositive.contains(attribute.name()) ? 1 : -kLargestAttribute;
      if (value >= low && value <= kLargestAttribute) return;
      if (attribute.name() == "ends" || attribute.name() == "starts") return;  // INT_MAX means the end
      fail(fmt::format("node {} ({} {}): {} = {} is out of range", i, clip(node.op_type(), 40), clip(node.name(), 60),
                       clip(attribute.name(), 40), value));
    };
    if (attribute.has_i() || attribute.type() == onnx::AttributeProto::INT) check(attribute.i());
    for (const std::int64_t value : attribute.ints()) check(value);
    if (attribute.has_t()) {
      check_sizes(attribute.t(), fmt::format("node {} ({} {})", i, clip(node.op_type(), 40), clip(node.name(), 60)));
    }
  }

  void drop_contents() {
    for (onnx::TensorProto& tensor : *model_.mutable_graph()->mutable_initializer()) drop_contents(tensor);
    for (onnx::NodeProto& node : *model_.mutable_graph()->mutable_node()) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_t()) drop_contents(*attribute.mutable_t());
        for (onnx::TensorProto& tensor : *attribute.mutable_tensors()) drop_contents(tensor);
        if (!attribute.has_sparse_tensor()) continue;
        drop_contents(*attribute.mutable_sparse_tensor()->mutable_values());
        drop_contents(*attribute.mutable_sparse_tensor()->mutable_indices());
      }
    }
  }

  static void drop_contents(onnx::TensorProto& tensor) {
    const int most = std::max({tensor.float_data_size(), tensor.int32_data_size(), tensor.int64_data_size(),
                               tensor.double_data_size(), tensor.uint64_data_size()});
    const bool small = tensor.raw_data().size() <= kSmallInitializer && most <= kFewNumbers;
    if (small && tensor.string_data_size() == 0) return;
    onnx::TensorProto kept;  // clearing fields would keep their memory
    kept.set_name(tensor.name());
    kept.set_data_type(tensor.data_type());
    *kept.mutable_dims() = tensor.dims();
    tensor.Swap(&kept);
  }

  // Which dimensions of the inputs are batch and sequence, and their sizes.
  void find_roles() {
    std::set<std::string> initializers;
    for (const onnx::TensorProto& tensor : model_.graph().initializer()) initializers.insert(tensor.name());
    for (int i = 0; i < model_.graph().input_size(); ++i) {
      const onnx::ValueInfoProto& input = model_.graph().input(i);
      if (initializers.contains(input.name()) || !input.type().has_tensor_type()) continue;
      if (!input.type().tensor_type().has_shape())
        fail(fmt::format("input {}: it has no shape", clip(input.name(), 60)));
      find_roles(i);
    }
    if (fixed_batch_ > 0) result_.batch = fixed_batch_;
    if (fixed_sequence_ > 0) result_.sequence = fixed_sequence_;
    if (open_batch_) result_.batch = kBatch;
    if (open_sequence_) result_.sequence = kSequence;
  }

  enum class Role : std::uint8_t { none, batch, sequence };

  Role role_of(const onnx::TensorShapeProto_Dimension& dim, int place, int rank, int type) const {
    const bool named = dim.has_dim_param() && !dim.dim_param().empty();
    if (named && has_word(dim.dim_param(), {"batch"})) return Role::batch;
    if (named && has_word(dim.dim_param(), {"seq", "length", "token", "time"})) return Role::sequence;
    if (place == 0) return Role::batch;
    const bool tokens = place == 1 && ((rank == 2 && is_integer(type)) || (rank == 3 && !dim.has_dim_value()));
    return tokens ? Role::sequence : Role::none;
  }

  void find_roles(int index) {
    const auto& tensor = model_.graph().input(index).type().tensor_type();
    const int rank = tensor.shape().dim_size();
    for (int d = 0; d < rank; ++d) {
      const auto& dim = tensor.shape().dim(d);
      const Role role = role_of(dim, d, rank, tensor.elem_type());
      roles_.push_back({index, d, role, dim.has_dim_value() ? dim.dim_value() : 0});
      if (dim.has_dim_value() && (dim.dim_value() < 1 || dim.dim_value() > kLargestDimension)) {
        fail(fmt::format("input {}: dimension {} is {}, out of range", clip(model_.graph().input(index).name(), 60), d,
                         dim.dim_value()));
      }
      has_sequence_ = has_sequence_ || role == Role::sequence;
      if (!dim.has_dim_value()) {
        if (role == Role::none) {
          result_.warnings.push_back(
              fmt::format("input {}: dimension {} is open and neither batch nor sequence; it is taken as 1",
                          clip(model_.graph().input(index).name(), 60), d));
        }
        open_batch_ = open_batch_ || role == Role::batch;
        open_sequence_ = open_sequence_ || role == Role::sequence;
      } else if (role == Role::batch && fixed_batch_ == 0) {
        fixed_batch_ = dim.dim_value();
      } else if (role == Role::sequence && fixed_sequence_ == 0) {
        fixed_sequence_ = dim.dim_value();
      }
    }
  }

  Shapes infer(std::int64_t batch, std::int64_t sequence) {
    for (const auto& [index, d, role, size] : roles_) {
      std::int64_t wanted = std::max<std::int64_t>(1, size);
      if (role == Role::batch && (size == 0 || (!open_batch_ && size == fixed_batch_))) wanted = batch;
      if (role == Role::sequence && (size == 0 || (!open_sequence_ && size == fixed_sequence_))) wanted = sequence;
      auto* input = model_.mutable_graph()->mutable_input(index);
      input->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(d)->set_dim_value(wanted);
    }
    const InferredShapes inferred = infer_at(model_);
    Shapes shapes;
    for (const auto& [name, tensor] : inferred) {
      shapes[name] = tensor.shape;
      types_[name] = tensor.type;
    }
    return shapes;
  }

  // Whether a graph exported for fixed sizes serves others as well: every shape still follows, no reshape gains or
  // loses elements, and what comes out grows.
  bool follows(const Shapes& base, const Shapes& more) const {
    for (const auto& [name, shape] : base) {
      const auto other = more.find(name);
      if (other == more.end() || other->second.size() != shape.size()) return false;
    }
    const auto elements = [](const Shapes& shapes, const std::string& name) {
      const auto found = shapes.find(name);
      double count = 1;
      if (found != shapes.end()) {
        for (const std::int64_t size : found->second) count *= real(size);
      }
      return count;
    };
    for (const onnx::NodeProto& node : model_.graph().node()) {
      if (node.op_type() != "Reshape" || node.input_size() == 0 || node.output_size() != 1) continue;
      if (elements(more, node.input(0)) != elements(more, node.output(0))) return false;
    }
    const auto& outputs = model_.graph().output();
    return std::any_of(outputs.begin(), outputs.end(), [&](const onnx::ValueInfoProto& output) {
      return elements(more, output.name()) > elements(base, output.name());
    });
  }

  // How the extent grows: from what it is at twice the batch and twice the sequence.
  graph::Dimension dimension(const std::vector<std::int64_t>& shape, std::size_t d,
                             const std::vector<std::int64_t>* more_batch,
                             const std::vector<std::int64_t>* more_sequence) const {
    const auto base = real(std::max<std::int64_t>(1, shape[d]));
    const auto power = [&](const std::vector<std::int64_t>* other) {
      if (!other || other->size() != shape.size() || (*other)[d] <= 0) return 0;
      const double log = std::log2(real((*other)[d]) / base);
      return std::clamp(static_cast<int>(std::lround(log)), 0, 4);
    };
    graph::Dimension result;
    result.batch = batch_grows_ ? power(more_batch) : 0;
    result.sequence = sequence_grows_ ? power(more_sequence) : 0;
    // Sizes that are fixed inside the graph, too, are recognised by their values.
    const std::int64_t fixed_batch = std::max<std::int64_t>(1, fixed_batch_);
    const bool length = !sequence_grows_ && fixed_sequence_ > 1 && shape[d] == fixed_sequence_;
    const bool leads = !batch_grows_ && d == 0 && shape.size() > 1;
    if (leads && shape[0] % fixed_batch == 0 && (!length || shape[0] == fixed_batch_)) {
      result.batch = 1;
      if (!sequence_grows_ && fixed_sequence_ > 1 && shape[0] / fixed_batch == fixed_sequence_) result.sequence = 1;
    } else if (length) {
      result.sequence = 1;
    }
    result.coefficient =
        base / (std::pow(real(result_.batch), result.batch) * std::pow(real(result_.sequence), result.sequence));
    return result;
  }

  struct Place {
    int input, dimension;
    Role role;
    std::int64_t size;  // 0: open
  };

  onnx::ModelProto& model_;
  const std::string& source_;
  OnnxShapes result_;
  std::vector<Place> roles_;
  bool open_batch_ = false, open_sequence_ = false, has_sequence_ = false;
  bool batch_grows_ = false, sequence_grows_ = false;
  std::int64_t fixed_batch_ = 0, fixed_sequence_ = 0;
  std::map<std::string, int> types_;
};

}  // namespace

OnnxShapes infer_shapes(onnx::ModelProto& model, const std::string& source) { return ShapeFinder(model, source).run(); }

}  // namespace nest::onnx_graph

#endif
