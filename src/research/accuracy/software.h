// Sources of published rows -> the software that ran them, and what their memory figures mean.
#pragma once

#include <cstdint>
#include <string>

#include "accuracy/run.h"
#include "cost/job.h"

namespace nest::accuracy {

// By rules on the source (and, for a source never seen, on the model and the ZeRO stage), so that new rows get a
// sensible stack.
cost::SoftwareStack stack_for(const PublishedRun& run);

Precision precision_for(const PublishedRun& run);

// What a published peak is.
//   allocated  the most that live tensors took
//   reserved   what the caching allocator held
//   outside    what nvidia-smi shows: reserved, context and communicators
enum class MemoryReading : std::uint8_t { allocated, reserved, outside };
MemoryReading reading_for(const PublishedRun& run);
const char* to_string(MemoryReading reading);

}  // namespace nest::accuracy
