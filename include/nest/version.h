#pragma once

#include <string>
#include <vector>

namespace nest {

// "0.1.0"
const char* version();

// Optional parts that this build, or this machine, does not have, each with what it would need: "ONNX files (libonnx)".
std::vector<std::string> left_out();

}  // namespace nest
