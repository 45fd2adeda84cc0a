// The two ends of a model: what turns tokens into the stream, and what turns the stream into a loss. Internal to the graph
// builder.
#pragma once

#include "model/build.h"
#include "model/graph.h"

namespace nest::model {

// The token table is one weight wherever it appears.
inline constexpr const char* kTokenTable = "token table";

// Of an encoder, or of the tower that ends with the head (`last`), which also takes what prefix towers read.
Layer build_embedding(const Architecture& arch, const Implementation& implementation, bool encoder, bool last);

Layer build_head(const Architecture& arch, const Implementation& implementation, const Tower& tower);

}  // namespace nest::model
