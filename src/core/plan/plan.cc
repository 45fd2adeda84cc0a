#include "plan/plan.h"

#include "base/checked.h"

namespace nest {

std::int64_t device_of(const Strategy& strategy, std::int64_t replica, std::int64_t stage, std::int64_t inner) {
  const std::int64_t outer = replica / strategy.dp_inner;
  const std::int64_t within = replica % strategy.dp_inner;
  return outer * strategy.effective_pitch() + (stage * strategy.dp_inner + within) * strategy.devices_per_stage() +
         inner;
}

std::int64_t micro_batches(const Strategy& strategy, std::int64_t global_batch) {
  return ceil_div(global_batch, checked_product({strategy.micro_batch, strategy.batch_ranks()}));
}

const char* to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::one_f_one_b: return "1f1b";
    case Schedule::interleaved: return "interleaved";
    case Schedule::gpipe: return "gpipe";
  }
  return "?";
}

}  // namespace nest
