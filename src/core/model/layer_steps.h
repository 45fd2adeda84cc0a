// Layers around the blocks of a tower that reads pictures or sound. Internal to the graph builder.
#pragma once

#include "model/layer_builder.h"

namespace nest::model {

// The stream of a tower's blocks.
Stream stream_of(const Architecture& arch, const Tower& tower);

// What turns pictures or sound into rows of the stream, and what its readers take: the tower's last norm and the steps
// after it, as one layer each.
Layer build_stem(const Architecture& arch, const Implementation& implementation, const Tower& tower);
Layer build_projector(const Architecture& arch, const Implementation& implementation, const Tower& tower);

}  // namespace nest::model
