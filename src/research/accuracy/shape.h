// The model of a published row as an architecture.
#pragma once

#include "accuracy/run.h"
#include "model/architecture.h"

namespace nest::accuracy {

model::Architecture architecture_for(const PublishedRun& run);

}  // namespace nest::accuracy
