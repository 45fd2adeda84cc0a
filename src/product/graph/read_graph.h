// nest.graph/1 as JSON (docs/formats.md), read and written.
#pragma once

#include <string>

#include "doc/value.h"
#include "graph/raw_graph.h"

namespace nest::graph {

inline constexpr const char* kGraphSchema = "nest.graph/1";

// Whether the document says that it is an operator graph.
bool is_graph(const Document& document);

// Strict: unknown keys, wrong kinds and anything that validate() refuses are InputErrors that name the key.
RawGraph read_graph(const Document& document);

// The same graph as a document again, for graphs that were read from something else.
Document write_graph(const RawGraph& graph);

}  // namespace nest::graph
