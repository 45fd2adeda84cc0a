// Why some published runs are off, where it is known or at least likely.
#pragma once

#include <string>

#include "accuracy/run.h"

namespace nest::accuracy {

// Empty when nothing is known.
std::string known_reason(const PublishedRun& run);

}  // namespace nest::accuracy
