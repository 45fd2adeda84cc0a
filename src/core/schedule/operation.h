// What a stage of a pipeline does, one operation after the other.
//
//     F  forward of one chunk of layers for one micro-batch
//     B  its backward, both gradients: I and W in one
//     I  the gradient of its input, which the stage before waits for
//     W  the gradients of its weights, which nobody waits for
//
// A stage holds v chunks. The p v chunks of all stages form a chain in the order of layers; a micro-batch passes it from
// position 0 to p v - 1 forward, and back. Which position (stage s, chunk c) has is part of a schedule: c p + s, round
// robin; or a V, there and back: s for chunk 0, 2p - 1 - s for chunk 1.
//
// A forward and the backward of another micro-batch that follows it may run as a pair: they begin together, and what
// waits for either waits for both. What travels in one may hide behind what is computed in the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nest::schedule {

enum class Pass : std::uint8_t { forward, backward, input_gradient, weight_gradient };

// 'F', 'B', 'I' or 'W'.
char letter(Pass pass);

struct Operation {
  Pass pass = Pass::forward;
  std::int32_t chunk = 0;  // of the stage
  std::int32_t micro_batch = 0;
  bool paired = false;  // with the operation after it

  bool is_forward() const { return pass == Pass::forward; }
  bool operator==(const Operation&) const = default;
};

using Order = std::vector<Operation>;  // of one stage

// "F3", or "F3.1" with the chunk where a stage has several.
std::string to_string(const Operation& operation, std::int64_t chunks);

// How large a pipeline is.
struct Shape {
  std::int64_t stages = 1;         // p
  std::int64_t chunks = 1;         // v, of every stage
  std::int64_t micro_batches = 1;  // m
  std::int64_t group = 0;          // g: micro-batches that pass one chunk before the next chunk's turn; 0: p

  std::int64_t positions() const { return stages * chunks; }
  std::int64_t grouped() const { return group == 0 ? stages : group; }
};

}  // namespace nest::schedule
