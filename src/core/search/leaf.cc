#include "search/leaf.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/checked.h"
#include "base/index.h"
#include "cost/constants.h"

namespace nest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Relative width within which two times count as equal: far above the error of their sums, far below any difference
// that matters.
constexpr double kEqual = 1e-12;

double exposed_share(const Job& job, const Strategy& strategy) {
  return strategy.virtual_stages > 1 && job.stack.pipeline_overlap ? constants::kMessageExposed : 1;
}

}  // namespace

double LeafSolver::message_bound_s(const Key& key, const PairPrices& pair) {
  const Strategy strategy = space_->strategy(key);
  const auto m = real(space_->micro_batch_count(key));
  const auto v = real(strategy.virtual_stages);
  double sum = pair.total_s(key.stages > 1), slowest = pair.slowest_s(key.stages);
  if (key.stages > 1) {
    const Messages& messages = placements_.messages(key);
    const double share = exposed_share(space_->job(), strategy);
    double least = kInfinity;
    for (const CostLine& line : messages.hops) {
      const double hop = share * v * line.at(pair.least_cut_bytes());
      sum += 2 * hop;
      least = std::min(least, hop);
    }
    sum += 2 * share * (v - 1) * messages.wrap.at(pair.table().wrap_bytes);
    slowest = std::max(slowest + least, sum / real(key.stages));
  }
  return (m * slowest + (sum - slowest) / v + constants::kStep_s) * (1 - kEqual);
}

std::int64_t LeafSolver::degree_of(const PlanSpace& space, const Strategy& strategy, const StageOption& option) {
  return option.group == 0 ? 0 : space.node_degree(strategy).value_or(0);
}

// What the network charges, and the bounds that follow from it.
void LeafSolver::look_at(const Key& key, const PairPrices& pair) {
  pair_ = &pair;
  strategy_ = space_->strategy(key);
  m_ = real(space_->micro_batch_count(key));
  v_ = real(strategy_.virtual_stages);
  sync_ = &placements_.sync(key, pair.table());
  messages_ = &placements_.messages(key);
  share_ = exposed_share(space_->job(), strategy_);
  const std::int64_t p = strategy_.pp;
  hop_low_s_.assign(at(p), 0);
  sum_low_s_ = pair.total_s(p > 1);
  wrap_s_ = p > 1 ? share_ * (v_ - 1) * messages_->wrap.at(pair.table().wrap_bytes) : 0;
  for (std::int64_t s = 0; s + 1 < p; ++s) {
    const double least = share_ * v_ * messages_->hops[at(s)].at(pair.least_cut_bytes());
    hop_low_s_[at(s)] += least;
    hop_low_s_[at(s + 1)] += least;
    sum_low_s_ += 2 * least;
  }
  hop_low_s_[0] += wrap_s_;
  hop_low_s_[at(p - 1)] += p > 1 ? wrap_s_ : 0;
  sum_low_s_ += 2 * wrap_s_;

  const auto stages = real(p);
  const double slowest = pair.slowest_s(p) + *std::min_element(hop_low_s_.begin(), hop_low_s_.end());
  const TrafficFloor traffic(space_->limits(), rule_, pair, *sync_, strategy_, zero_degrees(strategy_, 0));
  once_low_s_ = traffic.seconds(stages / v_);
  low_s_ = std::max(value(std::max(slowest, sum_low_s_ / stages), sum_low_s_) + once_low_s_,
                    value(sum_low_s_ / stages, sum_low_s_) + traffic.seconds(m_ - 1 / v_ + stages / v_)) *
           (1 - kEqual);
}

// What the passes read.
void LeafSolver::start(const Key& key) {
  const Job& job = space_->job();
  const std::int64_t p = strategy_.pp, n = space_->layers();
  ++epoch_;
  pool_.clear();
  intervals_.resize(at(space_->intervals()));
  room_bytes_ = real(job.cluster.device.memory_bytes) - real(context_bytes(job, strategy_));
  constexpr std::size_t kMostIntervals = 60'000;
  if (known_intervals_ > kMostIntervals) {
    known_fits_.clear();
    known_intervals_ = 0;
  }
  fits_ = &known_fits_[{key.split, key.micro_batch, p, key.replicas, sync_->degrees[1]}];
  flight_.clear();
  for (std::int64_t s = 0; s < p; ++s) {
    flight_.push_back(in_flight(strategy_.schedule, p, strategy_.virtual_stages, s, space_->micro_batch_count(key)));
  }
  hop_s_.resize(at(p - 1));
  for (std::int64_t s = 0; s + 1 < p; ++s) {
    std::vector<double>& hops = hop_s_[at(s)];
    hops.assign(at(n + 1), 0);
    for (std::int64_t i = 1; i < n; ++i) {
      hops[at(i)] = share_ * v_ * messages_->hops[at(s)].at(pair_->table().cut_bytes[at(i - 1)]);
    }
  }
}

LeafSolver::Interval& LeafSolver::interval(std::int64_t begin, std::int64_t end) {
  const int id = space_->interval(begin, end);
  Interval& interval = intervals_[at(id)];
  if (interval.epoch == epoch_) return interval;
  const Job& job = space_->job();
  const PlanLimits& limits = space_->limits();
  const StageSums sums = pair_->sums(begin, end, strategy_.pp > 1);
  const auto [place, fresh] = fits_->try_emplace(id);
  if (fresh) ++known_intervals_;
  std::array<Fit, StageOption::kCodes>& fits = place->second;
  interval.epoch = epoch_;
  interval.begin = static_cast<std::uint32_t>(pool_.size());
  for (int code = 0; code < StageOption::kCodes; ++code) {
    const StageOption option = StageOption::from_code(code);
    if (!limits.recompute[at(option.recompute)]) continue;
    if (!limits.zero[at(option.zero)]) continue;
    if (option.group == 1 && (option.zero == 0 || !sync_->has_inner)) continue;
    const auto recompute = static_cast<Recompute>(option.recompute);
    const StageCost cost = stage_cost(job, rule_, strategy_, sums, sync_->lines[option.group][option.zero == 3 ? 1 : 0],
                                      option.zero, recompute);
    pool_.push_back({sums.recompute_s[at(option.recompute)] + cost.micro_exposed_s,
                     cost.sync_exposed_s + cost.optimizer_s + cost.deferred_s + constants::kStep_s, code,
                     &fits[at(code)]});
  }
  interval.count = static_cast<std::uint32_t>(pool_.size()) - interval.begin;
  std::sort(pool_.begin() + interval.begin, pool_.end(), [](const Option& a, const Option& b) {
    if (a.time_s != b.time_s) return a.time_s < b.time_s;
    if (a.per_step_s != b.per_step_s) return a.per_step_s < b.per_step_s;
    return a.code < b.code;
  });
  return interval;
}

bool LeafSolver::fits_exactly(const Option& option, std::int64_t begin, std::int64_t end, std::int64_t stage) const {
  const StageOption choice = StageOption::from_code(option.code);
  const ZeroDegrees degrees = zero_degrees(strategy_, choice.zero == 0 ? 0 : sync_->degrees[choice.group]);
  const double least = floor_.bytes(*pair_, begin, end, choice.zero, degrees, choice.recompute, flight_[at(stage)]);
  if (least > room_bytes_) return false;
  StagePlan plan;
  plan.first = static_cast<int>(begin);
  plan.last = static_cast<int>(end - 1);
  plan.zero = choice.zero;
  plan.zero_degree = sync_->degrees[choice.group];
  plan.recompute = static_cast<Recompute>(choice.recompute);
  return pair_->memory().estimate(strategy_, plan, stage).needed <= space_->job().cluster.device.memory_bytes;
}

// For the same layers, memory does not fall as more micro-batches are in flight, and they do not grow from stage to
// stage: the stages where an option fits are all those from some stage on, found by bisection.
bool LeafSolver::fits(const Option& option, std::int64_t begin, std::int64_t end, std::int64_t stage) {
  Fit& known = *option.fit;
  const double wanted = flight_[at(stage)];
  const auto settled = [&](std::int64_t s) {
    return flight_[at(s)] <= known.most || flight_[at(s)] >= known.least_not;
  };
  const auto look = [&](std::int64_t s) {
    if (fits_exactly(option, begin, end, s)) {
      known.most = std::max(known.most, flight_[at(s)]);
    } else {
      known.least_not = std::min(known.least_not, flight_[at(s)]);
    }
  };
  if (!settled(stage)) {
    look(stage);
    std::int64_t low = stage, high = strategy_.pp;
    while (wanted > known.most && high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      if (!settled(middle)) look(middle);
      (flight_[at(middle)] <= known.most ? high : low) = middle;
    }
  }
  return wanted <= known.most;
}

double LeafSolver::value(double slowest_s, double sum_s) const { return m_ * slowest_s + (sum_s - slowest_s) / v_; }

// Largest tau with value(tau, sum) <= limit.
double LeafSolver::cap(double sum_s, double limit_s) const {
  const double steps = m_ * v_ - 1;
  if (limit_s == kInfinity) return kInfinity;
  if (steps == 0) return sum_s <= limit_s * (1 + kEqual) ? kInfinity : -1;
  return (limit_s * v_ - sum_s) / steps * (1 + kEqual);
}

// Admissible positions of every cut when no stage exceeds the cap.
bool LeafSolver::windows(double cap_s) {
  const std::int64_t n = space_->layers(), p = strategy_.pp, v = strategy_.virtual_stages;
  const std::vector<double>& prefix = pair_->prefix(p > 1);
  const double slack = prefix.back() * kEqual;
  low_.assign(at(p + 1), n);
  high_.assign(at(p + 1), 0);
  std::int64_t before = 0, after = 0;  // fewest layers of the stages there
  for (std::int64_t s = 1; s < p; ++s) after += space_->fewest_layers(s, p, v);
  for (std::int64_t s = 0; s < p; ++s) {
    const double room = cap_s - hop_low_s_[at(s)];
    if (room < 0) return false;
    const auto reach = std::upper_bound(prefix.begin(), prefix.end(), prefix[at(high_[at(s)])] + room + slack);
    high_[at(s + 1)] = std::min<std::int64_t>(reach - prefix.begin() - 1, n - after);
    before += space_->fewest_layers(s, p, v);
    if (high_[at(s + 1)] < before) return false;
    if (s + 1 < p) after -= space_->fewest_layers(s + 1, p, v);
  }
  if (high_[at(p)] < n) return false;
  for (std::int64_t s = p - 1; s >= 0; --s) {
    const double room = cap_s - hop_low_s_[at(s)];
    const auto reach = std::lower_bound(prefix.begin(), prefix.end(), prefix[at(low_[at(s + 1)])] - room - slack);
    before -= space_->fewest_layers(s, p, v);
    low_[at(s)] = std::max<std::int64_t>(reach - prefix.begin(), before);
    if (low_[at(s)] > high_[at(s)]) return false;
  }
  return true;
}

// Least sum of the plans with every t <= cap and every y < theta.
std::optional<LeafSolver::Found> LeafSolver::pass(double cap_s, double theta_s, LeafPlan& plan) {
  ++passes_;
  if (!windows(cap_s)) return std::nullopt;
  const std::int64_t n = space_->layers(), p = strategy_.pp;
  const std::vector<double>& prefix = pair_->prefix(p > 1);
  const std::size_t width = at(n + 1);
  const double slack = prefix.back() * kEqual;
  cells_.assign(width * at(p + 1), Cell{kInfinity, -1, -1});
  cells_[0].sum_s = 0;
  for (std::int64_t s = 0; s < p; ++s) {
    bool any = false;
    const double ends = p > 1 && (s == 0 || s + 1 == p) ? wrap_s_ : 0;
    const std::int64_t fewest = space_->fewest_layers(s, p, strategy_.virtual_stages);
    for (std::int64_t i = low_[at(s)]; i <= high_[at(s)]; ++i) {
      const double before = cells_[at(s) * width + at(i)].sum_s;
      if (before == kInfinity) continue;
      const double arrive = ends + (s > 0 ? hop_s_[at(s - 1)][at(i)] : 0);
      for (std::int64_t j = std::max(i + fewest, low_[at(s + 1)]); j <= high_[at(s + 1)]; ++j) {
        if (j < n && !space_->may_cut(j, strategy_.virtual_stages)) continue;
        const double layers = prefix[at(j)] - prefix[at(i)];
        if (layers > cap_s + slack) break;
        const double base = layers + arrive + (s + 1 < p ? hop_s_[at(s)][at(j)] : 0);
        if (base > cap_s + slack) continue;
        const Interval& here = interval(i, j);
        for (std::uint32_t k = here.begin; k < here.begin + here.count; ++k) {
          const Option& option = pool_[k];
          const double time = base + option.time_s;
          if (time > cap_s + slack) break;
          if (option.per_step_s >= theta_s || (only_ >= 0 && option.code != only_)) continue;
          if (before + time >= cells_[at(s + 1) * width + at(j)].sum_s) break;
          if (!fits(option, i, j, s)) continue;
          cells_[at(s + 1) * width + at(j)] = {before + time, static_cast<std::int32_t>(i),
                                               static_cast<std::int32_t>(k)};
          any = true;
          break;
        }
      }
    }
    if (!any) return std::nullopt;
  }
  if (cells_[at(p) * width + at(n)].sum_s == kInfinity) return std::nullopt;
  plan.cuts.assign(at(p + 1), n);
  plan.options.assign(at(p), 0);
  Found found{0, cells_[at(p) * width + at(n)].sum_s, 0};
  for (std::int64_t s = p, j = n; s > 0; --s) {
    const Cell& cell = cells_[at(s) * width + at(j)];
    const Option& option = pool_[at(cell.option)];
    const double time = cell.sum_s - cells_[at(s - 1) * width + at(cell.from)].sum_s;
    found.slowest_s = std::max(found.slowest_s, time);
    found.per_step_s = std::max(found.per_step_s, option.per_step_s);
    plan.options[at(s - 1)] = option.code;
    plan.cuts[at(s - 1)] = j = cell.from;
  }
  return found;
}

std::optional<LeafPlan> LeafSolver::search(double limit_s) {
  LeafPlan best;
  best.time_s = limit_s * (1 + kEqual);
  bool any = false;
  double theta = kInfinity;
  const double slowest_low = pair_->slowest_s(strategy_.pp) * (1 - kEqual);
  while (theta > constants::kStep_s) {
    double value_low = kInfinity, its_per_step = kInfinity;
    double highest = cap(sum_low_s_, best.time_s - once_low_s_);
    while (highest >= slowest_low) {
      LeafPlan plan;
      const std::optional<Found> found = pass(highest, theta, plan);
      if (!found) break;
      const double own = value(found->slowest_s, found->sum_s);
      if (own < value_low) {
        value_low = own;
        its_per_step = found->per_step_s;
      }
      if (own + found->per_step_s < best.time_s) {
        best = plan;
        best.time_s = own + found->per_step_s;
        any = true;
      }
      highest = std::min({found->slowest_s * (1 - 2 * kEqual) - 2 * kEqual * sum_low_s_, cap(found->sum_s, value_low),
                          cap(found->sum_s, best.time_s - constants::kStep_s)});
    }
    if (value_low == kInfinity) break;
    // The second is the larger one in exact arithmetic; a difference of times that are nearly equal may round above it.
    theta = std::min(best.time_s - value_low, its_per_step);
  }
  if (!any) return std::nullopt;
  return best;
}

std::optional<LeafPlan> LeafSolver::solve(const Key& key, const PairPrices& pair, double limit_s) {
  look_at(key, pair);
  if (low_s_ > limit_s * (1 + kEqual)) return std::nullopt;
  start(key);
  only_ = -1;
  if (!space_->limits().uniform) return search(limit_s);
  std::optional<LeafPlan> best;
  for (int code = 0; code < StageOption::kCodes; ++code) {
    only_ = code;
    if (std::optional<LeafPlan> plan = search(best ? best->time_s * (1 - 2 * kEqual) : limit_s)) best = std::move(plan);
  }
  return best;
}

}  // namespace nest
