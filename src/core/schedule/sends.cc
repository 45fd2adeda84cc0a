#include "schedule/sends.h"

#include <algorithm>
#include <iterator>

namespace nest::schedule {

std::vector<bool> held_sends(const Order& order, const Sends& sends) {
  std::vector<bool> held(order.size(), false);
  if (!sends.overlapped) return held;
  const auto is_forward = [](const Operation& operation) { return operation.is_forward(); };
  const auto warm_up = std::find_if_not(order.begin(), order.end(), is_forward) - order.begin();
  const auto cool_down = order.rend() - std::find_if(order.rbegin(), order.rend(), is_forward);
  for (std::ptrdiff_t k = 0; k < std::ssize(order); ++k) {
    const Operation& operation = order[static_cast<std::size_t>(k)];
    if (operation.pass == Pass::weight_gradient) continue;  // sends nothing
    const bool flushes = operation.is_forward() ? k < warm_up : k >= cool_down;
    held[static_cast<std::size_t>(k)] = (operation.is_forward() && sends.forward_blocks) || (flushes && !sends.flush);
  }
  return held;
}

}  // namespace nest::schedule
