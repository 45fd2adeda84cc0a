#include "search/memory_floor.h"

#include <algorithm>
#include <limits>

#include "base/index.h"
#include "plan/pipeline_shape.h"

namespace nest::search {

MemoryFloor::MemoryFloor(const cost::Job& job, const plan::PlanLimits& limits)
    : job_(&job),
      state_(cost::state_bytes(job)),
      gradients_(job.stack.memory == cost::MemoryModel::megatron),
      margin_((1 + job.stack.memory_margin) * (1 - 1e-9)) {
  for (int zero = 0; zero < 4; ++zero) {
    if (limits.zero[at(zero)]) most_zero_ = zero;
  }
}

double MemoryFloor::bytes(const PairPrices& pair, std::int64_t begin, std::int64_t end, int zero,
                          const groups::ZeroDegrees& degrees, Recompute recompute, double in_flight) const {
  return bytes(pair, begin, end, zero, degrees, pair.kept_bytes(recompute), in_flight);
}

double MemoryFloor::bytes(const PairPrices& pair, std::int64_t begin, std::int64_t end, int zero,
                          const groups::ZeroDegrees& degrees, const std::vector<double>& kept, double in_flight) const {
  const double expert = pair.expert_parameters(begin, end);
  const double dense = std::max(0.0, pair.dense_parameters(begin, end) - pair.shared_parameters());
  const double whole = dense + expert;
  const double shard = dense / real(degrees.dense) + expert / real(degrees.expert);
  double state = state_.weight * (zero >= 3 ? shard : whole);
  state += state_.optimizer * (zero >= 1 ? shard : whole);
  if (gradients_) state += state_.gradient * (zero >= 2 ? shard : whole);
  const double flight = std::max(0.0, in_flight - (gradients_ ? 0 : 1));
  return (state + flight * (kept[at(end)] - kept[at(begin)])) * margin_;
}

// The floor grows with the interval, so the stages from the first on, each as long as it can be, reach as far as any
// stages do.
bool MemoryFloor::admits(const Strategy& strategy, const PairPrices& pair) const {
  const groups::ZeroDegrees degrees = groups::zero_degrees(strategy, 0);
  Strategy single = strategy;  // has the fewest communicators
  single.dp = single.dp_inner = 1;
  const double room = real(job_->cluster.device.memory_bytes) - real(cost::context_bytes(*job_, single));
  const auto n = static_cast<std::int64_t>(job_->model.layers.size());
  const schedule::Shape shape = plan::pipeline_shape(strategy, job_->run.global_batch);
  std::int64_t reached = 0;
  for (std::int64_t s = 0; s < strategy.pp && reached < n; ++s) {
    const double flight = schedule::in_flight(strategy.schedule, shape, s);
    const auto fits = [&](std::int64_t end) {
      return bytes(pair, reached, end, most_zero_, degrees, pair.least_kept_bytes(), flight) <= room;
    };
    std::int64_t low = reached, high = n + 1;  // [reached, low) fits, [reached, high) does not
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    reached = low;  // a stage that can hold nothing from here on may still hold earlier layers, of shorter stages
  }
  return reached >= n;
}

}  // namespace nest::search
