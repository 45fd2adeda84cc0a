// The arithmetic on shapes that exporters write into a graph, carried out: small tensors of known values.
// Internal to onnx_graph.
#pragma once

#ifdef NEST_ONNX

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nest::onnx_graph {

struct OnnxValue {
  std::vector<double> values;  // exact for what shapes are made of
  int rank = 0;                // 0 or 1
  int type = 0;                // TensorProto::DataType
};

// Of an initializer or literal; nothing when it is large, has more than one dimension or no numbers.
std::optional<OnnxValue> read_value(const onnx::TensorProto& tensor);
onnx::TensorProto write_value(const OnnxValue& value);

using KnownShape = std::function<const std::vector<std::int64_t>*(const std::string&)>;

// The node's result where all it reads is known.
std::optional<OnnxValue> evaluate_node(const onnx::NodeProto& node, const std::map<std::string, OnnxValue>& known,
                                       const KnownShape& shape_of);

}  // namespace nest::onnx_graph

#endif
