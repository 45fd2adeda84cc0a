// Which of libonnx's shape rules may be called. Internal to onnx_graph.
#pragma once

#ifdef NEST_ONNX

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace nest::onnx_graph {

// libonnx 1.12 reads dimensions by number before it looks how many there are, and some rules write as many as a file
// asks for. So a rule is called only for operators nest knows, with ranks, axes and lists that fit together.
// `ranks`: of the inputs, -1 where one is left out. `axes`: given as an input, where their values are known.
bool may_infer(const onnx::NodeProto& node, const std::vector<int>& ranks, const std::vector<std::int64_t>& axes);

// Of what Einsum makes of inputs of these shapes; libonnx knows no more than its rank. Nothing where the equation does
// not fit them, or has an ellipsis.
std::optional<std::vector<std::int64_t>> einsum_shape(const onnx::NodeProto& node,
                                                      const std::vector<std::vector<std::int64_t>>& inputs);

}  // namespace nest::onnx_graph

#endif
