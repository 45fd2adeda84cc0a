#include "schedule/generators.h"

namespace nest::schedule {

Order gpipe(const Shape& shape, std::int64_t) {
  const std::int64_t m = shape.micro_batches;
  return in_turn(one_by_one(Pass::forward, m), one_by_one(Pass::backward, m), shape.stages > 1 ? m : 0);
}

std::int64_t gpipe_held(const Shape& shape, std::int64_t) { return shape.stages > 1 ? shape.micro_batches : 1; }

}  // namespace nest::schedule
