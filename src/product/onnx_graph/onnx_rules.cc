#include "onnx_graph/onnx_rules.h"

#ifdef NEST_ONNX

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "onnx_graph/onnx_ops.h"

namespace nest::onnx_graph {
namespace {

bool is_known(const std::string& type) {
  static const std::set<std::string> kOthers = {"MatMul",        "Gemm",           "Conv",
                                                "ConvTranspose", "QuantizeLinear", "DequantizeLinear"};
  return kOthers.contains(type) || known_ops().contains(type) || makes_constant(type);
}

bool slides_window(const std::string& type) {
  static const std::set<std::string> kWindows = {"Conv",   "ConvTranspose",     "MaxPool",      "AveragePool",
                                                 "LpPool", "GlobalAveragePool", "GlobalMaxPool"};
  return kWindows.contains(type);
}

class RuleCheck {
 public:
  RuleCheck(const onnx::NodeProto& node, const std::vector<int>& ranks)
      : node_(node), type_(node.op_type()), ranks_(ranks) {}

  bool ranks_fit() const {
    static const std::set<std::string> kAtLeastOne = {
        "Gather",  "GatherElements", "GatherND",           "TopK",   "Concat", "Split",
        "Softmax", "LogSoftmax",     "LayerNormalization", "ArgMax", "ArgMin", "BatchNormalization"};
    static const std::set<std::string> kFour = {"DepthToSpace", "SpaceToDepth", "GridSample"};
    const int first = rank(0);
    if (slides_window(type_)) return first >= 3 && window_fits(first - 2);
    if (type_ == "Gemm") return first == 2 && rank(1) == 2 && rank(2) <= 2;
    if (type_ == "MatMul") return first >= 1 && rank(1) >= 1;
    if (type_ == "GatherND" && rank(1) < 1) return false;
    if (type_ == "GridSample" && rank(1) != 4) return false;
    if (type_ == "Trilu" || type_ == "EyeLike") return first >= 2;
    if (type_ == "NegativeLogLikelihoodLoss" || type_ == "SoftmaxCrossEntropyLoss") {
      return first >= 2 && rank(1) == first - 1;
    }
    if (type_ == "Concat" && std::any_of(ranks_.begin(), ranks_.end(), [&](int r) { return r != first; })) return false;
    if (type_ == "BatchNormalization" && std::any_of(ranks_.begin() + 1, ranks_.end(), [](int r) { return r != 1; })) {
      return false;
    }
    if (type_ == "Slice" && !same_lengths()) return false;
    return kFour.contains(type_) ? first == 4 : !kAtLeastOne.contains(type_) || first >= 1;
  }

  bool axes_fit(const std::vector<std::int64_t>& axes) const {
    if (!one_by_one(axes)) return false;
    for (const onnx::AttributeProto& each : node_.attribute()) {
      if (each.name() != "axis" && each.name() != "axes") continue;
      if (!one_by_one({each.ints().begin(), each.ints().end()})) return false;
      if (each.has_i() && !one_by_one({each.i()})) return false;
    }
    return true;
  }

 private:
  int rank(std::size_t i) const { return i < ranks_.size() ? ranks_[i] : -1; }

  const onnx::AttributeProto* attribute(const char* name) const {
    for (const onnx::AttributeProto& each : node_.attribute()) {
      if (each.name() == name) return &each;
    }
    return nullptr;
  }

  bool window_fits(int dimensions) const {
    if (type_.starts_with("Conv") && (rank(1) != rank(0) || (rank(2) != -1 && rank(2) != 1))) return false;
    for (const char* name : {"strides", "dilations", "kernel_shape", "output_padding", "output_shape"}) {
      const onnx::AttributeProto* list = attribute(name);
      if (list && list->ints_size() != dimensions) return false;
    }
    const onnx::AttributeProto* pads = attribute("pads");
    return !pads || pads->ints_size() == 2 * dimensions;
  }

  bool same_lengths() const {
    const onnx::AttributeProto *starts = attribute("starts"), *ends = attribute("ends"), *axes = attribute("axes");
    if (!starts && !ends && !axes) return true;
    return starts && ends && starts->ints_size() == ends->ints_size() &&
           (!axes || axes->ints_size() == starts->ints_size());
  }

  // Each axis in [-rank, rank); Flatten cuts between two, Unsqueeze counts those it makes.
  bool one_by_one(const std::vector<std::int64_t>& axes) const {
    std::int64_t bound = rank(0);
    if (type_ == "Flatten") ++bound;
    if (type_ == "Unsqueeze") bound += static_cast<std::int64_t>(axes.size());
    return std::all_of(axes.begin(), axes.end(), [&](std::int64_t axis) { return axis >= -bound && axis < bound; });
  }

  const onnx::NodeProto& node_;
  const std::string& type_;
  const std::vector<int>& ranks_;
};

}  // namespace

bool may_infer(const onnx::NodeProto& node, const std::vector<int>& ranks, const std::vector<std::int64_t>& axes) {
  if (!is_known(node.op_type())) return false;
  const RuleCheck check(node, ranks);
  return check.ranks_fit() && check.axes_fit(axes);
}

std::optional<std::vector<std::int64_t>> einsum_shape(const onnx::NodeProto& node,
                                                      const std::vector<std::vector<std::int64_t>>& inputs) {
  if (node.attribute_size() != 1 || node.attribute(0).name() != "equation") return std::nullopt;
  std::string equation = node.attribute(0).s();
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->");
  if (arrow == std::string::npos || inputs.empty()) return std::nullopt;
  std::map<char, std::int64_t> sizes;
  std::size_t input = 0, dimension = 0;
  for (const char letter : equation.substr(0, arrow)) {
    if (letter == ',') {
      if (dimension != inputs[input].size() || ++input == inputs.size()) return std::nullopt;
      dimension = 0;
      continue;
    }
    if (letter == '.' || dimension == inputs[input].size()) return std::nullopt;
    const std::int64_t size = inputs[input][dimension++];
    const auto [known, fresh] = sizes.try_emplace(letter, size);
    if (!fresh && known->second != size) return std::nullopt;
  }
  if (input + 1 != inputs.size() || dimension != inputs.back().size()) return std::nullopt;
  std::vector<std::int64_t> shape;
  for (const char letter : equation.substr(arrow + 2)) {
    const auto size = sizes.find(letter);
    if (size == sizes.end() || shape.size() == sizes.size()) return std::nullopt;
    shape.push_back(size->second);
  }
  return shape;
}

}  // namespace nest::onnx_graph

#endif
