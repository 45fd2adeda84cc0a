// An ONNX file as an operator graph.
//
// Which dimensions of the inputs are the batch and the sequence is read off their symbolic names ("batch", "seq_len")
// or places: the first dimension is the batch, the second one of token ids or of [batch, sequence, width] the sequence.
// Shapes are inferred at three sizes, so that every dimension becomes coefficient * batch^p * sequence^q; files with
// fixed sizes are taken at those, and where their graph has sizes written into it, dimensions are told by their values.
//
// What ONNX does not say is what a training step keeps. PyTorch's rules are assumed; LayerNorm, GELU and SiLU that an
// exporter took apart are put together again.
#pragma once

#include <cstddef>
#include <string>

#include "graph/raw_graph.h"

namespace nest::onnx_graph {

inline constexpr std::size_t kLargestOnnxBytes = std::size_t{256} << 20U;

// Whether this build reads ONNX at all.
bool onnx_supported();

// Throws InputError: `bytes` are no ONNX model, sizes or shapes are missing or impossible, control flow; or this build
// has no ONNX.
graph::RawGraph read_onnx(const std::string& source, const std::string& name, const std::string& bytes);

}  // namespace nest::onnx_graph
