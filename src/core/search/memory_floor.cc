#include "search/memory_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/index.h"
#include "plan/pipeline_shape.h"
#include "search/choices.h"

namespace nest::search {

MemoryFloor::MemoryFloor(const cost::Job& job, const plan::PlanLimits& limits)
    : job_(&job),
      state_(cost::state_bytes(job)),
      gradients_(job.stack.memory == cost::MemoryModel::megatron),
      activations_(job.stack.offloaded_layers == 0),
      margin_((1 + job.stack.memory_margin) * (1 - 1e-9)),
      recomputations_(list_recomputations(job, limits)),
      blocks_(offers_blocks(job, limits)) {
  for (int zero = 3; zero >= 0; --zero) {
    if (limits.zero[at(zero)]) zeros_.push_back(zero);
  }
}

MemoryFloor::Sharded MemoryFloor::sharded(int zero, const groups::ZeroDegrees& degrees,
                                          const groups::ZeroDegrees& updated) const {
  return {zero, parameter_bytes(zero, degrees.dense, updated.dense, groups::Weights::dense),
          parameter_bytes(zero, degrees.expert, updated.expert, groups::Weights::expert),
          frozen_bytes(zero, degrees.dense, groups::Weights::dense),
          frozen_bytes(zero, degrees.expert, groups::Weights::expert)};
}

double MemoryFloor::bytes(const PairPrices& pair, std::int64_t begin, std::int64_t end, const Sharded& state,
                          const cost::StageTreatment& treatment, double in_flight, bool many) const {
  const double dense = std::max(0.0, pair.dense_parameters(begin, end) - pair.shared_parameters());
  const double frozen = std::max(0.0, pair.frozen_dense(begin, end) - pair.shared_frozen());
  const double held = state.dense * dense + state.expert * pair.expert_parameters(begin, end) +
                      state.frozen_dense * frozen + state.frozen_expert * pair.frozen_expert(begin, end);
  const double flight = flying(in_flight);
  // Blocks that are recomputed from their inputs and others meet in one stage, or one of them fills it.
  const int working = treatment.whole > 0 ? cost::kFirstSet : treatment.rest;
  const double more = end > begin ? pair.more_bytes(begin, end, state.zero, working, many) : 0;
  return held + flight * pair.kept_bytes(begin, end, treatment) * margin_ + more;
}

double MemoryFloor::least_of_all(const PairPrices& pair, std::int64_t stages, const Sharded& state,
                                 const cost::StageTreatment& treatment, double in_flight) const {
  const std::int64_t n = job_->model.layer_count();
  const double dense = std::max(0.0, pair.dense_parameters(0, n) - real(stages) * pair.shared_parameters());
  const double frozen = std::max(0.0, pair.frozen_dense(0, n) - real(stages) * pair.shared_frozen());
  const double held = state.dense * dense + state.expert * pair.expert_parameters(0, n) + state.frozen_dense * frozen +
                      state.frozen_expert * pair.frozen_expert(0, n);
  if (treatment.whole > 0) return held;  // which blocks are recomputed depends on the cuts
  return held + flying(in_flight) * pair.kept_bytes(0, n, treatment) * margin_;
}

double MemoryFloor::parameter_bytes(int zero, std::int64_t degree, std::int64_t updated,
                                    groups::Weights weights) const {
  const double share = 1 / real(degree);
  const double gradient = gradients_ ? state_.gradient : 0;
  // Experts' weights are all of products; of the others that is not known here.
  const double weight =
      weights == groups::Weights::expert ? state_.weight : std::min(state_.weight, state_.plain_weight);
  const double optimizer =
      weights == groups::Weights::expert ? state_.optimizer : std::min(state_.optimizer, state_.rest_optimizer);
  return margin_ * (weight * (zero >= state_.weights_shared_from ? share : 1) + gradient * (zero >= 2 ? share : 1) +
                    optimizer * (zero >= 1 ? 1 / real(updated) : 1));
}

double MemoryFloor::frozen_bytes(int zero, std::int64_t degree, groups::Weights weights) const {
  const double each =
      weights == groups::Weights::expert ? state_.frozen_weight : std::min(state_.frozen_weight, state_.plain_weight);
  return margin_ * each / (zero >= state_.weights_shared_from ? real(degree) : 1);
}

double MemoryFloor::flying(double in_flight) const {
  return activations_ ? std::max(0.0, in_flight - (gradients_ ? 0 : 1)) : 0;
}

double MemoryFloor::room_of(const Strategy& strategy) const {
  Strategy single = strategy;  // has the fewest communicators
  single.dp = single.dp_inner = strategy.split.team();
  return real(job_->cluster.device.memory_bytes) - real(cost::context_bytes(*job_, single));
}

// The stages of one pipeline, each as long as its time and memory allow.
class MemoryFloor::LongestStages {
 public:
  // One way to shard the state of stages, with one or with every way to recompute.
  struct Way {
    Sharded state;
    double shared;  // bytes of tables that several layers count, and a stage may hold once
    const Sparing* sparing;
    double most_more;  // of all layers
  };

  LongestStages(const PairPrices& pair, double room, bool many) : pair_(&pair), room_(room), many_(many) {}

  void add(const Way& way) { ways_.push_back(way); }

  // The farthest end of a stage from `begin` on.
  std::int64_t end_of(std::int64_t begin, double cap_s, double in_flight) const {
    std::int64_t best = begin;
    for (const Way& way : ways_) {
      const std::vector<double>& time_s = way.sparing->time_s;
      const auto reach = std::upper_bound(time_s.begin() + best, time_s.end(), time_s[at(begin)] + cap_s);
      std::int64_t high = reach - time_s.begin() - 1;
      const auto can_hold = [&](std::int64_t end) { return holds(way, begin, end, cap_s, in_flight); };
      if (high <= best || !can_hold(best + 1)) continue;
      if (can_hold(high)) {
        best = high;
        continue;
      }
      ++best;  // fits; high does not
      while (high - best > 1) {
        const std::int64_t middle = best + (high - best) / 2;
        (can_hold(middle) ? best : high) = middle;
      }
    }
    return best;
  }

 private:
  // Both bytes and seconds grow with the stage: a layer that is added can spare no more than it needs itself.
  bool holds(const Way& way, std::int64_t begin, std::int64_t end, double cap_s, double in_flight) const {
    const auto of = [&](const std::vector<double>& sums) { return sums[at(end)] - sums[at(begin)]; };
    const Sparing& sparing = *way.sparing;
    const double bytes = state_bytes(way, begin, end) + in_flight * of(sparing.kept);
    if (bytes + way.most_more <= room_) return true;
    const double short_of = bytes + pair_->more_bytes(begin, end, way.state.zero, sparing.treatment, many_) - room_;
    if (short_of <= 0) return true;
    if (sparing.steps.empty() || in_flight <= 0) return false;
    double wanted = short_of / in_flight, seconds = of(sparing.time_s);
    for (const Sparing::Step& step : sparing.steps) {
      const double spared = std::min(wanted, of(step.spared));
      seconds += spared * step.s_per_byte;
      wanted -= spared;
    }
    return wanted <= 1e-9 * short_of / in_flight && seconds <= cap_s;
  }

  double state_bytes(const Way& way, std::int64_t begin, std::int64_t end) const {
    const double bytes = way.state.dense * pair_->dense_parameters(begin, end) +
                         way.state.expert * pair_->expert_parameters(begin, end) +
                         way.state.frozen_dense * pair_->frozen_dense(begin, end) +
                         way.state.frozen_expert * pair_->frozen_expert(begin, end);
    return std::max(0.0, bytes - way.shared);
  }

  const PairPrices* pair_;
  double room_;
  bool many_;
  std::vector<Way> ways_;
};

namespace {

struct Point {
  double kept, seconds;
};

// From the fastest point on, the lower hull towards less memory.
std::vector<Point> hull_of(std::vector<Point> points) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.kept < b.kept;
  });
  std::vector<Point> hull;
  for (const Point& point : points) {
    if (!hull.empty() && point.kept >= hull.back().kept) continue;
    const auto is_above = [&](const Point& a, const Point& b) {  // b is above the line from a to `point`
      return (b.seconds - a.seconds) * (a.kept - point.kept) >= (point.seconds - a.seconds) * (a.kept - b.kept);
    };
    while (hull.size() > 1 && is_above(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(point);
  }
  return hull;
}

}  // namespace

// Every layer in its own way, and in parts.
MemoryFloor::Sparing MemoryFloor::spare_freely(const PairPrices& pair,
                                               const std::vector<cost::StageTreatment>& treatments, bool many) const {
  const auto& layers = job_->model.layers;
  const auto n = static_cast<std::int64_t>(layers.size());
  std::vector<std::vector<Point>> hulls(job_->model.kinds.size());
  Sparing sparing;
  sparing.treatment = cost::kFirstSet;  // the least that any of them needs while it works
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<Point>& hull = hulls[at(layers[at(i)])];
    if (hull.empty()) {
      std::vector<Point> points;
      points.reserve(treatments.size());
      for (const cost::StageTreatment& treatment : treatments) {
        points.push_back({margin_ * pair.kept_bytes(i, i + 1, treatment), pair.again_s(i, i + 1, treatment.rest)});
      }
      hull = hull_of(std::move(points));
    }
    sparing.time_s.push_back(sparing.time_s.back() + pair.prefix(many)[at(i + 1)] - pair.prefix(many)[at(i)] +
                             hull.front().seconds);
    sparing.kept.push_back(sparing.kept.back() + hull.front().kept);
  }
  for (std::size_t kind = 0; kind < hulls.size(); ++kind) {
    for (std::size_t k = 1; k < hulls[kind].size(); ++k) {
      const Point &from = hulls[kind][k - 1], &to = hulls[kind][k];
      Sparing::Step step{{0.0}, (to.seconds - from.seconds) / (from.kept - to.kept)};
      for (const int layer : layers) {
        step.spared.push_back(step.spared.back() + (at(layer) == kind ? from.kept - to.kept : 0));
      }
      sparing.steps.push_back(std::move(step));
    }
  }
  std::stable_sort(sparing.steps.begin(), sparing.steps.end(),
                   [](const Sparing::Step& a, const Sparing::Step& b) { return a.s_per_byte < b.s_per_byte; });
  return sparing;
}

// All layers in one way.
MemoryFloor::Sparing MemoryFloor::spare_alike(const PairPrices& pair, const cost::StageTreatment& treatment,
                                              bool many) const {
  Sparing sparing;
  sparing.treatment = treatment.rest;
  for (std::int64_t i = 1; i < std::ssize(pair.prefix(many)); ++i) {
    sparing.time_s.push_back(pair.stage_s(0, i, treatment, many));
    sparing.kept.push_back(margin_ * pair.kept_bytes(0, i, treatment));
  }
  return sparing;
}

std::vector<MemoryFloor::Sparing> MemoryFloor::list_sparings(const PairPrices& pair, bool many) const {
  std::vector<cost::StageTreatment> treatments;
  bool free = blocks_;  // layers choose for themselves
  for (const Recomputation& recompute : recomputations_) {
    free = free || recompute.kind == Recompute::modules;
    treatments.push_back(cost::stage_treatment(pair.treatments(), recompute, 1));
  }
  std::vector<Sparing> sparings;
  if (free) {
    // Blocks are of these two.
    if (blocks_) treatments.insert(treatments.end(), {{cost::kNothing}, {cost::kEverything}});
    sparings.push_back(spare_freely(pair, treatments, many));
  } else {
    for (const cost::StageTreatment& treatment : treatments) sparings.push_back(spare_alike(pair, treatment, many));
  }
  for (Sparing& sparing : sparings) {
    for (const int zero : zeros_) {
      sparing.most_more.push_back(pair.more_bytes(0, job_->model.layer_count(), zero, sparing.treatment, many));
    }
  }
  return sparings;
}

// Time and floor grow with the interval on both sides, so the stages from the first on, each as long as a cap on its
// time and the device's memory allow, reach as far as any stages do: a cap under which they do not reach the end is
// below every tau.
double MemoryFloor::slowest_s(const Strategy& strategy, const PairPrices& pair, double enough) const {
  const groups::ZeroDegrees degrees = groups::zero_degrees(strategy, 0);
  const std::int64_t n = job_->model.layer_count();
  const bool many = strategy.pp > 1;
  const auto [known, fresh] = known_.try_emplace({&pair, many});
  if (fresh) known->second = list_sparings(pair, many);
  LongestStages stages(pair, room_of(strategy), many);
  for (std::size_t z = 0; z < zeros_.size(); ++z) {
    const Sharded each = sharded(zeros_[z], degrees, degrees);
    const double shared = each.dense * pair.shared_parameters() + each.frozen_dense * pair.shared_frozen();
    for (const Sparing& sparing : known->second) stages.add({each, shared, &sparing, sparing.most_more[z]});
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
  double high = std::min(enough, pair.total_s(many) + pair.recompute_s());
  while (high - low > 1e-3 * low) {
    const double middle = low + (high - low) / 2;
    (reaches_end(middle * kAbove) ? high : low) = middle;
  }
  return low;
}

}  // namespace nest::search
