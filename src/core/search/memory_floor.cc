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
  for (int zero = 3; zero >= 0; --zero) {
    if (limits.zero[at(zero)]) zeros_.push_back(zero);
  }
  for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (limits.recompute[at(mode)]) modes_.push_back(mode);
  }
}

double MemoryFloor::bytes(const PairPrices& pair, std::int64_t begin, std::int64_t end, int zero,
                          const groups::ZeroDegrees& degrees, Recompute recompute, double in_flight, bool many) const {
  const std::vector<double>& kept = pair.kept_bytes(recompute);
  const double expert = pair.expert_parameters(begin, end);
  const double dense = std::max(0.0, pair.dense_parameters(begin, end) - pair.shared_parameters());
  const double state = parameter_bytes(zero, degrees.dense, groups::Weights::dense) * dense +
                       parameter_bytes(zero, degrees.expert, groups::Weights::expert) * expert;
  const double flight = flying(in_flight);
  const double more = end > begin ? pair.more_bytes(begin, end, zero, recompute, many) : 0;
  return state + flight * (kept[at(end)] - kept[at(begin)]) * margin_ + more;
}

double MemoryFloor::parameter_bytes(int zero, std::int64_t degree, groups::Weights weights) const {
  const double share = 1 / real(degree);
  const double gradient = gradients_ ? state_.gradient : 0;
  // Experts' weights are all of products; of the others that is not known here.
  const double weight =
      weights == groups::Weights::expert ? state_.weight : std::min(state_.weight, state_.plain_weight);
  const double optimizer =
      weights == groups::Weights::expert ? state_.optimizer : std::min(state_.optimizer, state_.rest_optimizer);
  return margin_ *
         (weight * (zero >= 3 ? share : 1) + gradient * (zero >= 2 ? share : 1) + optimizer * (zero >= 1 ? share : 1));
}

double MemoryFloor::flying(double in_flight) const {
  return activations_ ? std::max(0.0, in_flight - (gradients_ ? 0 : 1)) : 0;
}

double MemoryFloor::room_of(const Strategy& strategy) const {
  Strategy single = strategy;  // has the fewest communicators
  single.dp = single.dp_inner = strategy.split.team();
  return real(job_->cluster.device.memory_bytes) - real(cost::context_bytes(*job_, single));
}

namespace {

// The stages of one pipeline, each as long as its time and memory allow. All sums are those of layers [0, i).
class LongestStages {
 public:
  struct Way {             // to shard, and to recompute
    const double* time_s;  // per micro-batch
    const double* state;   // bytes
    const double* kept;    // bytes per micro-batch in flight
    double shared;         // bytes of tables that several layers count, and a stage may hold once
    int zero;
    Recompute recompute;
    double most_more;  // PairPrices::more_bytes of all layers
  };

  LongestStages(const PairPrices& pair, double room, bool many, std::int64_t layers)
      : pair_(&pair), room_(room), many_(many), layers_(layers) {}

  void add(const Way& way) { ways_.push_back(way); }

  // The farthest end of a stage from `begin` on.
  std::int64_t end_of(std::int64_t begin, double cap_s, double in_flight) const {
    std::int64_t best = begin;
    for (const Way& way : ways_) {
      const double* const reach =
          std::upper_bound(way.time_s + best, way.time_s + layers_ + 1, way.time_s[begin] + cap_s);
      std::int64_t high = reach - way.time_s - 1;
      if (high <= best || !fits(way, begin, best + 1, in_flight)) continue;
      if (fits(way, begin, high, in_flight)) {
        best = high;
        continue;
      }
      ++best;  // fits; high does not
      while (high - best > 1) {
        const std::int64_t middle = best + (high - best) / 2;
        (fits(way, begin, middle, in_flight) ? best : high) = middle;
      }
    }
    return best;
  }

 private:
  bool fits(const Way& way, std::int64_t begin, std::int64_t end, double in_flight) const {
    const double bytes =
        std::max(0.0, way.state[end] - way.state[begin] - way.shared) + in_flight * (way.kept[end] - way.kept[begin]);
    if (bytes + way.most_more <= room_) return true;
    return bytes <= room_ && bytes + pair_->more_bytes(begin, end, way.zero, way.recompute, many_) <= room_;
  }

  const PairPrices* pair_;
  double room_;
  bool many_;
  std::int64_t layers_;
  std::vector<Way> ways_;
};

}  // namespace

// Time and floor grow with the interval on both sides, so the stages from the first on, each as long as a cap on its
// time and the device's memory allow, reach as far as any stages do: a cap under which they do not reach the end is
// below every tau.
double MemoryFloor::slowest_s(const Strategy& strategy, const PairPrices& pair, double enough) const {
  const groups::ZeroDegrees degrees = groups::zero_degrees(strategy, 0);
  const auto n = static_cast<std::int64_t>(job_->model.layers.size());
  const std::size_t width = at(n + 1);
  const bool many = strategy.pp > 1;
  std::vector<double> numbers(width * (zeros_.size() + 2 * modes_.size()));
  double* next = numbers.data();
  std::vector<std::pair<const double*, double>> states;  // and what is shared
  for (const int zero : zeros_) {
    const double dense = parameter_bytes(zero, degrees.dense, groups::Weights::dense);
    const double expert = parameter_bytes(zero, degrees.expert, groups::Weights::expert);
    for (std::int64_t i = 0; i <= n; ++i) {
      next[i] = dense * pair.dense_parameters(0, i) + expert * pair.expert_parameters(0, i);
    }
    states.push_back({next, dense * pair.shared_parameters()});
    next += width;
  }
  LongestStages stages(pair, room_of(strategy), many, n);
  for (const Recompute mode : modes_) {
    double *const time_s = next, *const kept = next + width;
    next += 2 * width;
    for (std::int64_t i = 0; i <= n; ++i) {
      time_s[i] = pair.stage_s(0, i, mode, many);
      kept[i] = margin_ * pair.kept_bytes(mode)[at(i)];
    }
    for (std::size_t k = 0; k < zeros_.size(); ++k) {
      stages.add({time_s, states[k].first, kept, states[k].second, zeros_[k], mode,
                  pair.more_bytes(0, n, zeros_[k], mode, many)});
    }
  }
  const schedule::Shape shape = plan::pipeline_shape(strategy, job_->run.global_batch);
  std::vector<double> flight(at(strategy.pp));
  for (std::int64_t s = 0; s < strategy.pp; ++s) {
    flight[at(s)] = flying(cost::in_flight(*job_, strategy.split, strategy.schedule, shape, s));
  }
  const auto reaches_end = [&](double cap_s) {
    std::int64_t reached = 0;
    // A stage that can hold nothing from here on may still hold earlier layers, of shorter stages.
    for (std::int64_t s = 0; s < strategy.pp && reached < n; ++s) {
      reached = stages.end_of(reached, cap_s, flight[at(s)]);
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
