// Sources of published rows -> the software that ran them, and what their memory figures mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accuracy/run.h"
#include "cost/job.h"

namespace nest::accuracy {

struct Software {
  cost::SoftwareStack stack;
  Optimizer optimizer = Optimizer::adam;
  std::int64_t optimizer_offload = 0;  // percent
  // Settings of the row that no key of a stack says yet, by name: the row is priced with the nearest.
  std::vector<std::string> not_expressed;
};

// What the row's settings say; where it has none, by rules on the source (and, for a source never seen, on the model
// and the ZeRO stage), so that new rows get a sensible stack.
Software software_for(const PublishedRun& run);
cost::SoftwareStack stack_for(const PublishedRun& run);

// The settings of a row that Megatron-Core ran, as facts of a stack (software_settings.cc).
Software megatron_with_settings(const PublishedRun& run);

Precision precision_for(const PublishedRun& run);

// What a published peak is.
//   allocated  the most that live tensors took
//   reserved   what the caching allocator held
//   outside    what nvidia-smi shows: reserved, context and communicators
enum class MemoryReading : std::uint8_t { allocated, reserved, outside };
MemoryReading reading_for(const PublishedRun& run);
const char* to_string(MemoryReading reading);

}  // namespace nest::accuracy
