#include "onnx_graph/onnx_values.h"

#ifdef NEST_ONNX

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/index.h"

namespace nest::onnx_graph {
namespace {

constexpr std::size_t kMostValues = 1024;
constexpr double kHuge = 0x1p62;

bool integral(int type) {
  return type == onnx::TensorProto::INT64 || type == onnx::TensorProto::INT32 || type == onnx::TensorProto::BOOL ||
         type == onnx::TensorProto::INT8 || type == onnx::TensorProto::UINT8;
}

template <class T>
std::vector<double> from_raw(const std::string& raw) {
  std::vector<double> values(raw.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

template <class List>
std::vector<double> from_list(const List& list) {
  return {list.begin(), list.end()};
}

const onnx::AttributeProto* attribute(const onnx::NodeProto& node, const char* name) {
  for (const onnx::AttributeProto& each : node.attribute()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

class Evaluator {
 public:
  Evaluator(const onnx::NodeProto& node, const std::map<std::string, OnnxValue>& known, const KnownShape& shape_of)
      : node_(node), shape_of_(shape_of) {
    for (const std::string& name : node.input()) {
      const auto found = known.find(name);
      inputs_.push_back(found == known.end() ? nullptr : &found->second);
      complete_ = complete_ && (name.empty() || found != known.end());
    }
  }

  std::optional<OnnxValue> run() const {
    const std::string& type = node_.op_type();
    if (type == "Constant") return literal();
    if (type == "Shape" || type == "Size") return shape(type == "Size");
    if (!complete_ || inputs_.empty() || inputs_.front() == nullptr) return std::nullopt;
    if (auto result = structural(type)) return bounded(std::move(result));
    return bounded(arithmetic(type));
  }

 private:
  static std::optional<OnnxValue> bounded(std::optional<OnnxValue> value) {
    if (value && value->values.size() > kMostValues) return std::nullopt;
    return value;
  }

  const OnnxValue* input(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : nullptr; }

  std::optional<OnnxValue> literal() const {
    const onnx::AttributeProto* value = attribute(node_, "value");
    return value && value->has_t() ? read_value(value->t()) : std::nullopt;
  }

  std::optional<OnnxValue> shape(bool size) const {
    const auto* dims = node_.input_size() > 0 ? shape_of_(node_.input(0)) : nullptr;
    if (!dims) return std::nullopt;
    OnnxValue value{{}, 1, onnx::TensorProto::INT64};
    for (const std::int64_t dim : *dims) value.values.push_back(real(dim));
    if (size) {
      double product = 1;
      for (const double dim : value.values) product *= dim;
      return OnnxValue{{product}, 0, onnx::TensorProto::INT64};
    }
    if (attribute(node_, "start") || attribute(node_, "end")) return std::nullopt;
    return value;
  }

  std::optional<OnnxValue> structural(const std::string& type) const {
    OnnxValue x = *inputs_.front();
    if (type == "Identity") return x;
    if (type == "Unsqueeze") {
      if (x.rank != 0 || count_axes() != 1) return std::nullopt;
      x.rank = 1;
      return x;
    }
    if (type == "Reshape") return reshape(std::move(x));
    if (type == "Squeeze") {
      if (x.values.size() != 1) return std::nullopt;
      x.rank = 0;
      return x;
    }
    if (type == "Cast") return cast(std::move(x));
    if (type == "Concat") return concat();
    if (type == "Gather") return gather(x);
    if (type == "Slice") return slice(x);
    if (type == "ConstantOfShape") return filled(x);
    if (type == "Range") return range();
    return std::nullopt;
  }

  std::size_t count_axes() const {
    if (const OnnxValue* axes = input(1)) return axes->values.size();
    const onnx::AttributeProto* axes = attribute(node_, "axes");
    return axes ? at(axes->ints_size()) : 0;
  }

  // To a vector or a scalar; more dimensions are not kept track of.
  std::optional<OnnxValue> reshape(OnnxValue x) const {
    const OnnxValue* target = input(1);
    if (!target || target->values.size() > 1) return std::nullopt;
    const auto count = real(x.values.size());
    if (target->values.empty() && count != 1) return std::nullopt;
    if (!target->values.empty()) {
      const double size = target->values.front();
      if (size != -1 && size != count && (size != 0 || x.rank != 1)) return std::nullopt;
    }
    x.rank = target->values.empty() ? 0 : 1;
    return x;
  }

  std::optional<OnnxValue> cast(OnnxValue x) const {
    const onnx::AttributeProto* to = attribute(node_, "to");
    if (!to) return std::nullopt;
    x.type = static_cast<int>(to->i());
    if (integral(x.type)) {
      for (double& value : x.values) value = std::trunc(value);
    }
    return x;
  }

  std::optional<OnnxValue> concat() const {
    OnnxValue joined{{}, 1, inputs_.front()->type};
    for (const OnnxValue* each : inputs_) {
      if (each == nullptr || joined.values.size() + each->values.size() > kMostValues) return std::nullopt;
      joined.values.insert(joined.values.end(), each->values.begin(), each->values.end());
    }
    return joined;
  }

  std::optional<OnnxValue> gather(const OnnxValue& x) const {
    const OnnxValue* indices = input(1);
    if (!indices) return std::nullopt;
    OnnxValue taken{{}, indices->rank, x.type};
    const auto count = real(x.values.size());
    for (double index : indices->values) {
      if (index < 0) index += count;
      if (index < 0 || index >= count) return std::nullopt;
      taken.values.push_back(x.values[static_cast<std::size_t>(index)]);
    }
    return taken;
  }

  std::optional<OnnxValue> slice(const OnnxValue& x) const {
    const OnnxValue* starts = input(1);
    const OnnxValue* ends = input(2);
    const OnnxValue* steps = input(4);
    if (!starts || !ends || starts->values.size() != 1 || ends->values.size() != 1 || x.rank != 1) return std::nullopt;
    if (steps && (steps->values.size() != 1 || steps->values.front() != 1)) return std::nullopt;
    const auto count = real(x.values.size());
    const auto bounded_index = [&](double index) { return std::clamp(index < 0 ? index + count : index, 0.0, count); };
    const auto begin = static_cast<std::ptrdiff_t>(bounded_index(starts->values.front()));
    const auto end = static_cast<std::ptrdiff_t>(bounded_index(ends->values.front()));
    OnnxValue part{{}, 1, x.type};
    if (begin < end) part.values.assign(x.values.begin() + begin, x.values.begin() + end);
    return part;
  }

  std::optional<OnnxValue> filled(const OnnxValue& x) const {
    if (x.values.size() > 1) return std::nullopt;
    const double count = x.values.empty() ? 1 : x.values.front();
    if (count < 0 || count > real(kMostValues)) return std::nullopt;
    OnnxValue value{{0}, 0, onnx::TensorProto::FLOAT};
    if (const onnx::AttributeProto* given = attribute(node_, "value"); given && given->has_t()) {
      const auto read = read_value(given->t());
      if (!read || read->values.size() != 1) return std::nullopt;
      value = *read;
    }
    value.rank = x.values.empty() ? 0 : 1;
    const double fill = value.values.front();
    value.values.assign(static_cast<std::size_t>(count), fill);
    return value;
  }

  std::optional<OnnxValue> range() const {
    const OnnxValue *start = input(0), *limit = input(1), *delta = input(2);
    if (!limit || !delta || start->values.size() != 1 || limit->values.size() != 1 || delta->values.size() != 1)
      return std::nullopt;
    const double step = delta->values.front();
    if (step == 0) return std::nullopt;
    const double count = std::ceil((limit->values.front() - start->values.front()) / step);
    if (!(count >= 0) || count > real(kMostValues)) return std::nullopt;
    OnnxValue value{{}, 1, start->type};
    for (double i = 0; i < count; ++i) value.values.push_back(start->values.front() + i * step);
    return value;
  }

  std::optional<OnnxValue> arithmetic(const std::string& type) const {
    using Function = double (*)(double, double);
    static const std::map<std::string, Function> kBinary = {
        {"Add", [](double a, double b) { return a + b; }},
        {"Sub", [](double a, double b) { return a - b; }},
        {"Mul", [](double a, double b) { return a * b; }},
        {"Max", [](double a, double b) { return std::max(a, b); }},
        {"Min", [](double a, double b) { return std::min(a, b); }},
        {"Equal", [](double a, double b) { return a == b ? 1.0 : 0.0; }}};
    const OnnxValue& a = *inputs_.front();
    if (type == "Floor" || type == "Ceil" || type == "Neg") {
      OnnxValue out = a;
      for (double& v : out.values) v = type == "Floor" ? std::floor(v) : type == "Ceil" ? std::ceil(v) : -v;
      return out;
    }
    if (type == "Where") return where();
    const OnnxValue* b = input(1);
    if (!b || inputs_.size() != 2) return std::nullopt;
    if (type == "Div") {
      const bool whole = integral(a.type);
      return combined(a, *b, [whole](double x, double y) {
        return y == 0 ? std::numeric_limits<double>::quiet_NaN() : whole ? std::trunc(x / y) : x / y;
      });
    }
    const auto known = kBinary.find(type);
    if (known == kBinary.end()) return std::nullopt;
    auto out = combined(a, *b, known->second);
    if (out && type == "Equal") out->type = onnx::TensorProto::BOOL;
    return out;
  }

  template <class Function>
  static std::optional<OnnxValue> combined(const OnnxValue& a, const OnnxValue& b, Function function) {
    const std::size_t count = std::max(a.values.size(), b.values.size());
    if (a.values.empty() || b.values.empty()) return std::nullopt;
    if ((a.values.size() != count && a.values.size() != 1) || (b.values.size() != count && b.values.size() != 1))
      return std::nullopt;
    OnnxValue out{{}, std::max(a.rank, b.rank), a.type};
    for (std::size_t i = 0; i < count; ++i) {
      const double value = function(a.values[a.values.size() == 1 ? 0 : i], b.values[b.values.size() == 1 ? 0 : i]);
      if (!std::isfinite(value)) return std::nullopt;
      out.values.push_back(value);
    }
    return out;
  }

  std::optional<OnnxValue> where() const {
    const OnnxValue *condition = input(0), *yes = input(1), *no = input(2);
    if (!yes || !no || condition->values.empty()) return std::nullopt;
    const auto first = combined(*condition, *yes, [](double c, double y) { return c != 0 ? y : 0.0; });
    const auto second = combined(*condition, *no, [](double c, double n) { return c != 0 ? 0.0 : n; });
    if (!first || !second) return std::nullopt;
    auto out = combined(*first, *second, [](double a, double b) { return a + b; });
    if (out) out->type = yes->type;
    return out;
  }

  const onnx::NodeProto& node_;
  const KnownShape& shape_of_;
  std::vector<const OnnxValue*> inputs_;
  bool complete_ = true;
};

}  // namespace

std::optional<OnnxValue> read_value(const onnx::TensorProto& tensor) {
  if (tensor.dims_size() > 1) return std::nullopt;
  const std::int64_t count = tensor.dims_size() == 0 ? 1 : tensor.dims(0);
  if (count < 0 || count > static_cast<std::int64_t>(kMostValues)) return std::nullopt;
  OnnxValue value;
  value.rank = tensor.dims_size();
  value.type = tensor.data_type();
  switch (tensor.data_type()) {
    case onnx::TensorProto::INT64:
      value.values = tensor.has_raw_data() ? from_raw<std::int64_t>(tensor.raw_data()) : from_list(tensor.int64_data());
      break;
    case onnx::TensorProto::INT32:
      value.values = tensor.has_raw_data() ? from_raw<std::int32_t>(tensor.raw_data()) : from_list(tensor.int32_data());
      break;
    case onnx::TensorProto::BOOL:
    case onnx::TensorProto::UINT8:
      value.values = tensor.has_raw_data() ? from_raw<std::uint8_t>(tensor.raw_data()) : from_list(tensor.int32_data());
      break;
    case onnx::TensorProto::FLOAT:
      value.values = tensor.has_raw_data() ? from_raw<float>(tensor.raw_data()) : from_list(tensor.float_data());
      break;
    default: return std::nullopt;
  }
  if (value.values.size() != at(count)) return std::nullopt;
  for (const double each : value.values) {
    if (!std::isfinite(each)) return std::nullopt;
  }
  return value;
}

onnx::TensorProto write_value(const OnnxValue& value) {
  onnx::TensorProto tensor;
  tensor.set_data_type(value.type);
  if (value.rank == 1) tensor.add_dims(static_cast<std::int64_t>(value.values.size()));
  for (const double each : value.values) {
    const double bounded = std::clamp(each, -kHuge, kHuge);
    if (value.type == onnx::TensorProto::INT64) {
      tensor.add_int64_data(each > kHuge ? std::numeric_limits<std::int64_t>::max()
                                         : static_cast<std::int64_t>(bounded));
    } else if (integral(value.type)) {
      tensor.add_int32_data(static_cast<std::int32_t>(std::clamp(each, -0x1p31, 0x1p31 - 1)));
    } else {
      tensor.add_float_data(static_cast<float>(each));
    }
  }
  return tensor;
}

std::optional<OnnxValue> evaluate_node(const onnx::NodeProto& node, const std::map<std::string, OnnxValue>& known,
                                       const KnownShape& shape_of) {
  return Evaluator(node, known, shape_of).run();
}

}  // namespace nest::onnx_graph

#endif
