#include <algorithm>

#include "schedule/generators.h"

namespace nest::schedule {

Order interleaved(const Shape& shape, std::int64_t stage) {
  const std::int64_t m = shape.micro_batches, v = shape.chunks, g = shape.grouped();
  const std::int64_t last = m % g;
  const std::int64_t counted = last > 0 && last < shape.stages ? m - last + shape.stages : m;
  Order forwards, backwards;
  forwards.reserve(static_cast<std::size_t>(counted * v));
  backwards.reserve(static_cast<std::size_t>(counted * v));
  for (std::int64_t begin = 0; begin < counted; begin += g) {
    for (std::int64_t chunk = 0; chunk < v; ++chunk) {
      for (std::int64_t i = begin; i < std::min(begin + g, counted); ++i) {
        const auto micro_batch = static_cast<std::int32_t>(i);
        forwards.push_back({Pass::forward, static_cast<std::int32_t>(chunk), micro_batch});
        backwards.push_back({Pass::backward, static_cast<std::int32_t>(v - 1 - chunk), micro_batch});
      }
    }
  }
  const std::int64_t first = std::min(2 * (shape.stages - 1 - stage) + (v - 1) * g, counted * v);
  Order order = in_turn(forwards, backwards, first);
  std::erase_if(order, [m](const Operation& operation) { return operation.micro_batch >= m; });
  return order;
}

std::int64_t interleaved_held(const Shape& shape, std::int64_t stage) {
  return std::min(2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.grouped() + 1,
                  shape.micro_batches * shape.chunks);
}

}  // namespace nest::schedule
