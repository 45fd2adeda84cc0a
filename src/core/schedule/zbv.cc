#include <algorithm>

#include "schedule/generators.h"

namespace nest::schedule {

// As PyTorch's ScheduleZBVZeroBubble orders it; fewer than 2p - 1 micro-batches leave places empty, as there.
Order zbv(const Shape& shape, std::int64_t stage) {
  constexpr Pass F = Pass::forward, I = Pass::input_gradient, W = Pass::weight_gradient;
  const std::int64_t p = shape.stages, m = shape.micro_batches;
  InARow row(std::max(m, 2 * p - 1));
  for (std::int64_t k = 0; k < 2 * (p - stage) - 1; ++k) row.add(F, 0);
  for (std::int64_t k = 0; k < stage; ++k) {
    row.add(F, 1);
    row.add(F, 0);
  }
  for (std::int64_t k = 0; k < p - stage; ++k) {
    for (const Pass pass : {F, I, W}) row.add(pass, 1);
  }
  while (row.left(F, 1) || row.left(F, 0)) {
    for (const std::int32_t chunk : {0, 1}) {
      for (const Pass pass : {F, I, W}) row.add(pass, chunk);
    }
  }
  for (std::int64_t k = 0; k < stage; ++k) {
    row.add(I, 0);
    row.add(I, 1);
  }
  for (std::int64_t k = 0; k < p - stage; ++k) {
    row.add(I, 0);
    row.add(W, 0);
  }
  for (const std::int32_t chunk : {1, 0}) {
    while (row.left(W, chunk)) row.add(W, chunk);
  }
  std::erase_if(row.order, [m](const Operation& operation) { return operation.micro_batch >= m; });
  return std::move(row.order);
}

std::int64_t zbv_held(const Shape& shape, std::int64_t stage) {
  const std::int64_t m = shape.micro_batches;
  return std::min({2 * shape.stages, 2 * m, m + stage + 1});
}

std::int64_t there_and_back(const Shape& shape, std::int64_t stage, std::int64_t chunk) {
  return chunk == 0 ? stage : 2 * shape.stages - 1 - stage;
}

}  // namespace nest::schedule
