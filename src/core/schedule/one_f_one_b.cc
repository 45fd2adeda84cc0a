#include <algorithm>

#include "schedule/generators.h"

namespace nest::schedule {

Order one_f_one_b(const Shape& shape, std::int64_t stage) {
  const std::int64_t m = shape.micro_batches;
  return in_turn(one_by_one(Pass::forward, m), one_by_one(Pass::backward, m), std::min(shape.stages - 1 - stage, m));
}

std::int64_t one_f_one_b_held(const Shape& shape, std::int64_t stage) {
  return std::min(shape.stages - stage, shape.micro_batches);
}

}  // namespace nest::schedule
