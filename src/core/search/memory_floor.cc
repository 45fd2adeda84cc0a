#include "search/memory_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/index.h"
#include "plan/pipeline_shape.h"

namespace nest::search {

MemoryFloor::MemoryFloor(const cost::Job& job, const plan::PlanLimits& limits)
    : job_(&job),
      state_(cost::state_bytes(job)),
      gradients_(job.stack.memory == cost::MemoryModel::megatron),
      activations_(job.stack.offloaded_layers == 0),
      margin_((1 + job.stack.memory_margin) * (1 - 1e-9)) {
  for (int zero = 0; zero < 4; ++zero) {
    if (limits.zero[at(zero)]) most_zero_ = zero;
  }
  for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (limits.recompute[at(mode)]) modes_.push_back(mode);
  }
}

double MemoryFloor::bytes(const PairPrices& pair, std::int64_t begin, std::int64_t end, int zero,
                          const groups::ZeroDegrees& degrees, Recompute recompute, double in_flight) const {
  const std::vector<double>& kept = pair.kept_bytes(recompute);
  const double expert = pair.expert_parameters(begin, end);
  const double dense = std::max(0.0, pair.dense_parameters(begin, end) - pair.shared_parameters());
  const double whole = dense + expert;
  const double shard = dense / real(degrees.dense) + expert / real(degrees.expert);
  // Experts' weights are all of products; of the others that is not known here.
  const double excess = std::max(0.0, state_.weight - state_.plain_weight);
  double state = state_.weight * (zero >= 3 ? shard : whole);
  state -= excess * (zero >= 3 ? dense / real(degrees.dense) : dense);
  state += state_.optimizer * (zero >= 1 ? shard : whole);
  if (gradients_) state += state_.gradient * (zero >= 2 ? shard : whole);
  const double flight = activations_ ? std::max(0.0, in_flight - (gradients_ ? 0 : 1)) : 0;
  return (state + flight * (kept[at(end)] - kept[at(begin)])) * margin_;
}

// Time and floor grow with the interval on both sides, so the stages from the first on, each as long as a cap on its
// time and the device's memory allow, reach as far as any stages do: a cap under which they do not reach the end is
// below every tau.
double MemoryFloor::slowest_s(const Strategy& strategy, const PairPrices& pair, double enough) const {
  const groups::ZeroDegrees degrees = groups::zero_degrees(strategy, 0);
  Strategy single = strategy;  // has the fewest communicators
  single.dp = single.dp_inner = strategy.split.team();
  const double room = real(job_->cluster.device.memory_bytes) - real(cost::context_bytes(*job_, single));
  const auto n = static_cast<std::int64_t>(job_->model.layers.size());
  const bool many = strategy.pp > 1;
  const schedule::Shape shape = plan::pipeline_shape(strategy, job_->run.global_batch);
  std::vector<double> flight(at(strategy.pp));
  for (std::int64_t s = 0; s < strategy.pp; ++s) {
    flight[at(s)] = cost::in_flight(*job_, strategy.split, strategy.schedule, shape, s);
  }
  const auto reaches_end = [&](double cap_s) {
    std::int64_t reached = 0;
    for (std::int64_t s = 0; s < strategy.pp && reached < n; ++s) {
      const auto fits = [&](std::int64_t end) {
        return std::any_of(modes_.begin(), modes_.end(), [&](Recompute mode) {
          return pair.stage_s(reached, end, mode, many) <= cap_s &&
                 bytes(pair, reached, end, most_zero_, degrees, mode, flight[at(s)]) <= room;
        });
      };
      std::int64_t low = reached, high = n + 1;  // [reached, low) fits, [reached, high) does not
      while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (fits(middle) ? low : high) = middle;
      }
      reached = low;  // a stage that can hold nothing from here on may still hold earlier layers, of shorter stages
    }
    return reached >= n;
  };
  constexpr double kAbove = 1 + 1e-9;  // sums are rounded
  double low = pair.slowest_s(strategy.pp);
  if (reaches_end(low * kAbove)) return low;
  if (!reaches_end(std::isinf(enough) ? enough : enough * kAbove)) return std::numeric_limits<double>::infinity();
  double high = std::min(enough, pair.stage_s(0, n, Recompute::full, many));
  while (high - low > 1e-3 * low) {
    const double middle = low + (high - low) / 2;
    (reaches_end(middle * kAbove) ? high : low) = middle;
  }
  return low;
}

}  // namespace nest::search
