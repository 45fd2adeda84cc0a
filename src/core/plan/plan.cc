#include "plan/plan.h"

#include <algorithm>

#include "base/checked.h"

namespace nest {

std::int64_t device_of(const Strategy& strategy, std::int64_t replica, std::int64_t stage, std::int64_t inner) {
  const std::int64_t outer = replica / strategy.dp_inner;
  const std::int64_t within = replica % strategy.dp_inner;
  return outer * strategy.effective_pitch() + stage * strategy.block() + within * strategy.split.replica_devices() +
         inner;
}

std::int64_t micro_batches(const Strategy& strategy, std::int64_t global_batch) {
  return ceil_div(global_batch, checked_product({strategy.micro_batch, strategy.dp}));
}

std::size_t Plan::fullest_stage() const {
  const auto needs_less = [](const StagePlan& a, const StagePlan& b) { return a.memory.needed < b.memory.needed; };
  return static_cast<std::size_t>(std::max_element(stages.begin(), stages.end(), needs_less) - stages.begin());
}

}  // namespace nest
