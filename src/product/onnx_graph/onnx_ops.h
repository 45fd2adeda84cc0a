// Operators of ONNX that nest knows. Internal to onnx_graph.
#pragma once

#ifdef NEST_ONNX

#include <cstdint>
#include <map>
#include <string>

#include "graph/raw_graph.h"

namespace nest::onnx_graph {

enum class Keeps : std::uint8_t { nothing, inputs, outputs, by_rule };

struct OpEntry {
  graph::RawOp op;
  const char* kind;
  Keeps keeps;
};

// All but products and convolutions, which depend on what they read.
const std::map<std::string, OpEntry>& known_ops();

// Makers of constants: shapes, ranges, literals.
bool makes_constant(const std::string& type);

}  // namespace nest::onnx_graph

#endif
