#ifndef NEST_ONNX

#include <fmt/format.h>

#include "base/error.h"
#include "onnx_graph/read_onnx.h"

namespace nest::onnx_graph {

bool onnx_supported() { return false; }

graph::RawGraph read_onnx(const std::string& source, const std::string&, const std::string&) {
  throw InputError(
      fmt::format("{}: this nest was built without ONNX; install libonnx-dev and libprotobuf-dev (Debian, Ubuntu) and "
                  "build it again, or trace the model with Python's nest.trace",
                  source));
}

}  // namespace nest::onnx_graph

#endif
