// How much there is in an ONNX file, before anything is built from it.
//
// Two bytes of a file can become a hundred bytes of an object: a parser must not be handed more entries than there is
// room for. This walks the wire format only: the model's fields, those of its graph (field 7), those of its nodes
// (field 1 of the graph).
#pragma once

#include <cstddef>
#include <string_view>

namespace nest::onnx_graph {

// Fields of all three, or `most` + 1 where there are more. What is no protobuf message counts as far as it can be read.
std::size_t count_onnx_entries(std::string_view bytes, std::size_t most);

}  // namespace nest::onnx_graph
