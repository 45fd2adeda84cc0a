#include "more_schedules.h"

#include <algorithm>

#include "schedule/generators.h"

namespace nest::schedule::test {
namespace {

// Every forward after the first backward comes one place earlier.
schedule::Order one_ahead(const schedule::Shape& shape, std::int64_t stage) {
  schedule::Order forwards, backwards;
  for (const schedule::Operation& operation : schedule::interleaved(shape, stage)) {
    (operation.is_forward() ? forwards : backwards).push_back(operation);
  }
  const std::int64_t first = 2 * (shape.stages - 1 - stage) + (shape.chunks - 1) * shape.grouped() + 1;
  return schedule::in_turn(forwards, backwards, std::min(first, shape.micro_batches * shape.chunks));
}

}  // namespace

schedule::Rule interleaved_one_ahead() {
  return {Schedule::interleaved, 2, 64, one_ahead, nullptr, round_robin, nullptr, 0, 0};
}

}  // namespace nest::schedule::test
