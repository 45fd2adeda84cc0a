// Shapes of all tensors at one batch and sequence: ONNX's own rules per operator, with the values of shape arithmetic
// carried along. Internal to onnx_graph.
#pragma once

#ifdef NEST_ONNX

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nest::onnx_graph {

inline constexpr std::int64_t kLargestDimension = std::int64_t{1} << 40;

struct InferredTensor {
  std::vector<std::int64_t> shape;
  int type = 0;
};
using InferredShapes = std::map<std::string, InferredTensor>;

// The model's inputs have sizes. Tensors whose shape does not follow are left out.
InferredShapes infer_at(onnx::ModelProto& model);

}  // namespace nest::onnx_graph

#endif
