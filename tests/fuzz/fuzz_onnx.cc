// An ONNX file that is accepted must also survive everything that is done with it.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "fuzz_graph.h"
#include "onnx_graph/read_onnx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    nest::use_graph(
        nest::onnx_graph::read_onnx("model.onnx", "fuzz", std::string(reinterpret_cast<const char*>(data), size)));
  } catch (const nest::InputError&) {
    // Refusing is the right answer to most of what comes here; anything else escapes and fails the run.
  }
  return 0;
}
