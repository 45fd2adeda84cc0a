#include <algorithm>

#include "schedule/generators.h"

namespace nest::schedule {

Order zb_h1(const Shape& shape, std::int64_t stage) {
  Order order;
  std::int32_t weights = 0;
  for (const Operation& operation : one_f_one_b(shape, stage)) {
    if (operation.is_forward()) {
      order.push_back(operation);
      continue;
    }
    order.push_back({Pass::input_gradient, 0, operation.micro_batch});
    if (operation.micro_batch >= stage) order.push_back({Pass::weight_gradient, 0, weights++});
  }
  while (weights < shape.micro_batches) order.push_back({Pass::weight_gradient, 0, weights++});
  return order;
}

std::int64_t zb_h1_held(const Shape& shape, std::int64_t) { return std::min(shape.stages, shape.micro_batches); }

}  // namespace nest::schedule
