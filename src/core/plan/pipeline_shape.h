// The pipeline of a strategy, as schedules see it.
#pragma once

#include "plan/plan.h"
#include "schedule/rules.h"

namespace nest::plan {

inline schedule::Shape pipeline_shape(const Strategy& strategy, std::int64_t global_batch) {
  return {strategy.pp, strategy.virtual_stages, micro_batches(strategy, global_batch), strategy.group};
}

}  // namespace nest::plan
