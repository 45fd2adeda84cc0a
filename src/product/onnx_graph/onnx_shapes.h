// Shapes of all tensors of an ONNX model for any batch and sequence. Internal to onnx_graph.
#pragma once

#ifdef NEST_ONNX

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/raw_graph.h"

namespace nest::onnx_graph {

struct OnnxTensor {
  std::vector<graph::Dimension> shape;
  int type = 0;  // TensorProto::DataType
};

struct OnnxShapes {
  std::int64_t batch = 1, sequence = 1;  // of the first inference
  std::map<std::string, OnnxTensor> tensors;
  std::vector<std::string> warnings;
};

// Throws InputError. Changes the model: contents of large tensors are dropped (only their shapes matter), and open
// dimensions of its inputs get sizes.
OnnxShapes infer_shapes(onnx::ModelProto& model, const std::string& source);

}  // namespace nest::onnx_graph

#endif
