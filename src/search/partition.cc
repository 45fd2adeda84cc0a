#include "search/partition.h"

#include <algorithm>

#include "base/error.h"
#include "search/stage_cost.h"

namespace nest::search {

void PartitionSolver::start(const PartitionProblem& problem) {
  p_ = &problem;
  ++epoch_;
  sum_low_ = problem.sum_low_ps;
  pool_.clear();
  const Priced& priced = *problem.priced;
  const auto ids = static_cast<std::size_t>(priced.index().intervals());
  const std::size_t classes = problem.classes.size();
  const std::int64_t n = priced.size();
  if (lists_.size() < ids) lists_.resize(ids);
  if (in_ps_.size() < classes) {
    in_ps_.resize(classes);
    out_ps_.resize(classes);
  }
  hop_low_.assign(classes, 0);
  for (std::size_t c = 0; c < classes; ++c) {
    const StageClass& stage = problem.classes[c];
    in_ps_[c].assign(static_cast<std::size_t>(n) + 1, stage.wrap_ps);
    out_ps_[c].assign(static_cast<std::size_t>(n) + 1, 0);
    for (std::int64_t i = 1; i < n; ++i) {
      const std::int64_t bytes = priced.table().cut_bytes[static_cast<std::size_t>(priced.cut_kind(i))];
      in_ps_[c][static_cast<std::size_t>(i)] += problem.chunks * stage.hop_in.at(bytes);
      out_ps_[c][static_cast<std::size_t>(i)] = problem.chunks * stage.hop_out.at(bytes);
    }
    hop_low_[c] =
        problem.chunks * (stage.hop_in.at(priced.least_cut_bytes) + stage.hop_out.at(priced.least_cut_bytes)) +
        stage.wrap_ps;
  }
}

std::int64_t PartitionSolver::value(std::int64_t slowest, std::int64_t sum) const {
  return p_->micro_batches * slowest + (sum + p_->extra_ps - slowest) / p_->fill_chunks;
}

// Largest tau with value(tau, sum) <= limit; negative if there is none. `sum` includes extra here.
std::int64_t PartitionSolver::cap(std::int64_t sum, std::int64_t limit) const {
  const std::int64_t v = p_->fill_chunks, steps = p_->micro_batches * v - 1;
  if (steps == 0) return sum <= limit ? kForever : -1;
  return floor_div(static_cast<Int128>(limit) * v - sum + v - 1, steps);
}

// Admissible positions of every cut when no stage exceeds the cap: as far as greedy filling gets from the front, as
// near as it must be from the back. False when the chain cannot be covered.
bool PartitionSolver::windows(std::int64_t cap_ps) {
  const std::int64_t n = p_->priced->size(), stages = p_->stages(), least = p_->chunks;
  const std::vector<std::int64_t>& prefix = p_->priced->time_prefix();
  low_.assign(static_cast<std::size_t>(stages) + 1, n);
  high_.assign(static_cast<std::size_t>(stages) + 1, 0);
  for (std::int64_t s = 0; s < stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t room = cap_ps - hop_low_[static_cast<std::size_t>(p_->class_of[at])];
    if (room < 0) return false;
    const auto reach =
        std::upper_bound(prefix.begin(), prefix.end(), prefix[static_cast<std::size_t>(high_[at])] + room);
    high_[at + 1] = std::min<std::int64_t>(reach - prefix.begin() - 1, n - least * (stages - s - 1));
    if (high_[at + 1] < least * (s + 1)) return false;
  }
  if (high_[static_cast<std::size_t>(stages)] < n) return false;
  for (std::int64_t s = stages - 1; s >= 0; --s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t room = cap_ps - hop_low_[static_cast<std::size_t>(p_->class_of[at])];
    const auto reach =
        std::lower_bound(prefix.begin(), prefix.end(), prefix[static_cast<std::size_t>(low_[at + 1])] - room);
    low_[at] = std::max<std::int64_t>(reach - prefix.begin(), least * s);
    if (low_[at] > high_[at]) return false;
  }
  return true;
}

PartitionSolver::OptionList& PartitionSolver::options(std::int64_t begin, std::int64_t end) {
  OptionList& list = lists_[static_cast<std::size_t>(p_->priced->index().interval(begin, end))];
  if (list.epoch != epoch_) list_options(begin, end, list);
  return list;
}

// All options that no other option beats in time, per-iteration time and micro-batches it can hold, in order of time.
void PartitionSolver::list_options(std::int64_t begin, std::int64_t end, OptionList& list) {
  const Problem& problem = *p_->problem;
  const IntervalSums sums = p_->priced->sums(begin, end);
  struct Choice {
    ZeroCost cost;
    int zero, group;
  };
  std::array<Choice, 7> zeros{};
  std::size_t zero_count = 0;
  const auto beaten = [](const ZeroCost& a, const ZeroCost& b) {
    return b.per_micro_batch_ps <= a.per_micro_batch_ps && b.per_iteration_ps <= a.per_iteration_ps &&
           b.state_bytes <= a.state_bytes;
  };
  for (int group = 0; group < 2; ++group) {
    if (!problem.options.group[static_cast<std::size_t>(group)] && group == 1) continue;
    const ShardGroup& shard = p_->sync.group[static_cast<std::size_t>(group)];
    const Sharded sharded(problem.state, shard, sums);
    for (int zero = group; zero < 4; ++zero) {
      if (!problem.options.zero[static_cast<std::size_t>(zero)]) continue;
      if (zero > 0 && !problem.options.group[static_cast<std::size_t>(group)]) continue;
      const ZeroCost cost = zero_cost(problem.state, zero, sharded, sums);
      // Equal costs: the smaller code stays, which is the one with the lower ZeRO stage.
      bool keep = true;
      for (std::size_t k = 0; k < zero_count && keep; ++k) {
        keep = !(beaten(cost, zeros[k].cost) && (zeros[k].zero <= zero || !beaten(zeros[k].cost, cost)));
      }
      if (!keep) continue;
      std::size_t kept = 0;
      for (std::size_t k = 0; k < zero_count; ++k) {
        if (!beaten(zeros[k].cost, cost)) zeros[kept++] = zeros[k];
      }
      zeros[kept++] = {cost, zero, group};
      zero_count = kept;
    }
  }
  const auto first = pool_.size();
  list.begin = static_cast<std::uint32_t>(first);
  list.epoch = epoch_;
  list.most_in_flight = -1;
  for (int recompute = 0; recompute < 3; ++recompute) {
    const auto r = static_cast<std::size_t>(recompute);
    if (!problem.options.recompute[r]) continue;
    std::int64_t most_room = -1;
    for (std::size_t k = 0; k < zero_count; ++k) {
      const ZeroCost& zero = zeros[k].cost;
      const std::int64_t room = problem.memory_bytes - zero.state_bytes - sums.working_bytes[r];
      const std::int64_t time = sums.recompute_ps[r] + zero.per_micro_batch_ps;
      // What the caps exclude still counts for memory, by which the scan over longer intervals is ended.
      const bool useful = sums.time_ps + time <= list_cap_ && zero.per_iteration_ps <= list_theta_;
      if (room < 0 || (!useful && room <= most_room)) continue;
      const std::int64_t holds = sums.kept_bytes[r] == 0 ? kForever : room * p_->chunks / sums.kept_bytes[r];
      most_room = std::max(most_room, room);
      list.most_in_flight = std::max(list.most_in_flight, holds);
      if (!useful) continue;
      pool_.push_back(
          {time, zero.per_iteration_ps, holds, StageOption{recompute, zeros[k].zero, zeros[k].group}.code()});
    }
  }
  const auto from = pool_.begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(from, pool_.end(), [](const Option& a, const Option& b) {
    if (a.time_ps != b.time_ps) return a.time_ps < b.time_ps;
    if (a.per_iteration_ps != b.per_iteration_ps) return a.per_iteration_ps < b.per_iteration_ps;
    return a.code < b.code;
  });
  auto kept = from;
  for (auto option = from; option != pool_.end(); ++option) {
    const bool useless = std::any_of(from, kept, [&](const Option& better) {
      return better.per_iteration_ps <= option->per_iteration_ps && better.most_in_flight >= option->most_in_flight;
    });
    if (!useless) *kept++ = *option;
  }
  pool_.erase(kept, pool_.end());
  list.count = static_cast<std::uint32_t>(pool_.size() - first);
}

// Fastest option and least per-iteration time among those that hold this many micro-batches, and for how many others
// the answer is the same.
void PartitionSolver::choose(OptionList& list, std::int64_t held, std::int64_t theta) const {
  list.pass = passes_;
  list.held_above = -1;
  list.held_most = kForever;
  list.fastest_ps = list.least_once_ps = list.time_of_least_ps = kForever;
  for (std::uint32_t k = 0; k < list.count; ++k) {
    const Option& option = pool_[list.begin + k];
    if (option.most_in_flight < held) {
      list.held_above = std::max(list.held_above, option.most_in_flight);
      continue;
    }
    list.held_most = std::min(list.held_most, option.most_in_flight);
    if (option.per_iteration_ps > theta) continue;
    if (list.fastest_ps == kForever) list.fastest_ps = option.time_ps;
    if (option.per_iteration_ps < list.least_once_ps) {
      list.least_once_ps = option.per_iteration_ps;
      list.time_of_least_ps = option.time_ps;
    }
  }
}

// Least per-iteration time among the options that take at most this long.
std::int64_t PartitionSolver::least_once(const OptionList& list, std::int64_t held, std::int64_t theta,
                                         std::int64_t most_ps) const {
  std::int64_t least = kForever;
  for (std::uint32_t k = 0; k < list.count && pool_[list.begin + k].time_ps <= most_ps; ++k) {
    const Option& option = pool_[list.begin + k];
    if (option.most_in_flight < held || option.per_iteration_ps > theta) continue;
    least = std::min(least, option.per_iteration_ps);
  }
  return least;
}

// Least sum, least maximum and least per-iteration time, each on its own, over all ways to cut under the caps.
std::optional<PartitionSolver::Minima> PartitionSolver::minima_pass(std::int64_t cap_ps, std::int64_t theta) {
  ++passes_;
  if (!windows(cap_ps)) return std::nullopt;
  const Priced& priced = *p_->priced;
  const std::int64_t n = priced.size();
  const Minima none{kForever, kForever, kForever};
  now_.assign(static_cast<std::size_t>(n) + 1, none);
  next_.assign(static_cast<std::size_t>(n) + 1, none);
  now_[0] = {0, 0, 0};
  for (std::int64_t s = 0; s < p_->stages(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    const auto stage_class = static_cast<std::size_t>(p_->class_of[at]);
    const std::int64_t held = p_->in_flight[at];
    const std::int64_t room = cap_ps - hop_low_[stage_class];
    const std::int64_t* in = in_ps_[stage_class].data();
    const std::int64_t* out = out_ps_[stage_class].data();
    for (std::int64_t j = low_[at + 1]; j <= high_[at + 1]; ++j) next_[static_cast<std::size_t>(j)] = none;
    bool any = false;
    for (std::int64_t i = low_[at]; i <= high_[at]; ++i) {
      const Minima from = now_[static_cast<std::size_t>(i)];
      if (from.sum_ps >= kForever) continue;
      const std::int64_t arrive = in[i];
      for (std::int64_t j = std::max(i + p_->chunks, low_[at + 1]); j <= high_[at + 1]; ++j) {
        const std::int64_t layers = priced.time(i, j);
        if (layers > room) break;
        const std::int64_t base = layers + arrive + out[j];
        if (base > cap_ps) continue;
        OptionList& list = options(i, j);
        if (list.most_in_flight < held) break;
        if (list.pass != passes_ || held <= list.held_above || held > list.held_most) choose(list, held, theta);
        const std::int64_t time = base + list.fastest_ps;
        if (time > cap_ps) continue;
        any = true;
        Minima& to = next_[static_cast<std::size_t>(j)];
        to.sum_ps = std::min(to.sum_ps, from.sum_ps + time);
        to.slowest_ps = std::min(to.slowest_ps, std::max(from.slowest_ps, time));
        std::int64_t once = list.least_once_ps;
        if (base + list.time_of_least_ps > cap_ps) once = least_once(list, held, theta, cap_ps - base);
        to.per_iteration_ps = std::min(to.per_iteration_ps, std::max(from.per_iteration_ps, once));
      }
    }
    if (!any) return std::nullopt;
    now_.swap(next_);
  }
  const Minima& end = now_[static_cast<std::size_t>(n)];
  if (end.sum_ps >= kForever) return std::nullopt;
  return end;
}

// Least sum under the caps, with the plan that attains it.
std::optional<PartitionSolver::Found> PartitionSolver::sum_pass(std::int64_t cap_ps, std::int64_t theta,
                                                                PartitionPlan& plan) {
  ++passes_;
  if (!windows(cap_ps)) return std::nullopt;
  const Priced& priced = *p_->priced;
  const std::int64_t n = priced.size(), stages = p_->stages();
  const auto width = static_cast<std::size_t>(n) + 1;
  cells_.assign(width * (static_cast<std::size_t>(stages) + 1), Cell{kForever, -1, -1});
  cells_[0].sum_ps = 0;
  for (std::int64_t s = 0; s < stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const auto stage_class = static_cast<std::size_t>(p_->class_of[at]);
    const std::int64_t held = p_->in_flight[at];
    const std::int64_t room = cap_ps - hop_low_[stage_class];
    const std::int64_t* in = in_ps_[stage_class].data();
    const std::int64_t* out = out_ps_[stage_class].data();
    const Cell* now = &cells_[at * width];
    Cell* next = &cells_[(at + 1) * width];
    for (std::int64_t i = low_[at]; i <= high_[at]; ++i) {
      const std::int64_t from = now[i].sum_ps;
      if (from >= kForever) continue;
      const std::int64_t arrive = in[i];
      for (std::int64_t j = std::max(i + p_->chunks, low_[at + 1]); j <= high_[at + 1]; ++j) {
        const std::int64_t layers = priced.time(i, j);
        if (layers > room) break;
        const std::int64_t base = layers + arrive + out[j];
        if (base > cap_ps || from + base >= next[j].sum_ps) continue;
        const OptionList& list = options(i, j);
        if (list.most_in_flight < held) break;
        for (std::uint32_t k = 0; k < list.count; ++k) {
          const Option& option = pool_[list.begin + k];
          const std::int64_t time = base + option.time_ps;
          if (time > cap_ps) break;
          if (option.most_in_flight < held || option.per_iteration_ps > theta) continue;
          if (from + time < next[j].sum_ps) {
            next[j] = {from + time, static_cast<std::int32_t>(i), static_cast<std::int32_t>(list.begin + k)};
          }
          break;
        }
      }
    }
  }
  if (cells_[static_cast<std::size_t>(stages) * width + width - 1].sum_ps >= kForever) return std::nullopt;
  Found found{0, 0, 0};
  plan.cuts.assign(static_cast<std::size_t>(stages) + 1, n);
  plan.options.assign(static_cast<std::size_t>(stages), 0);
  for (auto s = static_cast<std::size_t>(stages); s > 0; --s) {
    const Cell& cell = cells_[s * width + static_cast<std::size_t>(plan.cuts[s])];
    const Option& option = pool_[static_cast<std::size_t>(cell.option)];
    const std::int64_t time = cell.sum_ps - cells_[(s - 1) * width + static_cast<std::size_t>(cell.from)].sum_ps;
    plan.cuts[s - 1] = cell.from;
    plan.options[s - 1] = option.code;
    found.slowest_ps = std::max(found.slowest_ps, time);
    found.sum_ps += time;
    found.per_iteration_ps = std::max(found.per_iteration_ps, option.per_iteration_ps);
  }
  return found;
}

// Lowers theta to what the limit leaves for Y, and returns the cap on tau that the limit implies.
std::int64_t PartitionSolver::first_caps(std::int64_t limit, std::int64_t& theta) const {
  const std::int64_t share = ceil_div(sum_low_, p_->stages());
  theta = std::min(theta, limit - value(share, sum_low_ - p_->extra_ps));
  return std::min(cap(sum_low_, limit - p_->per_iteration_low_ps), cap(p_->sum_low_ps, limit - p_->joint_low_ps));
}

std::optional<std::int64_t> PartitionSolver::bound(const PartitionProblem& problem, std::int64_t limit_ps) {
  start(problem);
  std::int64_t theta = kForever;
  const std::int64_t cap_ps = first_caps(limit_ps, theta);
  if (theta < 0 || cap_ps < 0) return std::nullopt;
  list_cap_ = cap_ps;
  list_theta_ = theta;
  const std::optional<Minima> minima = minima_pass(cap_ps, theta);
  if (!minima) return std::nullopt;
  const std::int64_t low =
      value(minima->slowest_ps, minima->sum_ps) + std::max(problem.per_iteration_low_ps, minima->per_iteration_ps);
  if (low > limit_ps) return std::nullopt;
  return low;
}

// All tau for one theta. Updates the best plan, the limit (one below its time) and the least value(tau, S) seen.
bool PartitionSolver::improve(const Minima& minima, std::int64_t cap_ps, std::int64_t theta, std::int64_t& limit,
                              std::int64_t& best_value, PartitionPlan& best) {
  PartitionPlan plan;
  const auto run = [&](std::int64_t tau) {
    const std::optional<Found> found = sum_pass(tau, theta, plan);
    if (!found) return found;
    const std::int64_t now = value(found->slowest_ps, found->sum_ps);
    best_value = std::min(best_value, now);
    if (now + found->per_iteration_ps <= limit) {
      best = plan;
      best.time_ps = now + found->per_iteration_ps;
      limit = best.time_ps - 1;
    }
    return found;
  };
  // Largest tau at which a plan with this sum would still be new and small enough.
  const auto worth = [&](std::int64_t sum) {
    const std::int64_t all = sum + p_->extra_ps;
    return std::min(cap(all, best_value - 1), cap(all, limit - p_->per_iteration_low_ps));
  };
  const std::optional<Found> tightest = run(minima.slowest_ps);
  if (!tightest) return false;
  if (tightest->sum_ps <= minima.sum_ps) return true;
  std::int64_t tau = std::min(cap_ps, worth(minima.sum_ps));
  while (tau > minima.slowest_ps) {
    const std::optional<Found> looser = run(tau);
    if (!looser || looser->sum_ps >= tightest->sum_ps) break;
    tau = std::min(worth(looser->sum_ps), looser->slowest_ps - 1);
  }
  return true;
}

std::optional<PartitionPlan> PartitionSolver::solve(const PartitionProblem& problem, std::int64_t limit_ps) {
  start(problem);
  PartitionPlan best;
  std::int64_t limit = limit_ps, theta = kForever;
  list_cap_ = first_caps(limit, theta);
  list_theta_ = theta;
  while (true) {
    const std::int64_t cap_ps = first_caps(limit, theta);
    if (theta < problem.per_iteration_low_ps || cap_ps < 0) break;
    const std::optional<Minima> minima = minima_pass(cap_ps, theta);
    if (!minima) break;
    const std::int64_t least_y = std::max(problem.per_iteration_low_ps, minima->per_iteration_ps);
    if (value(minima->slowest_ps, minima->sum_ps) + least_y > limit) break;
    std::int64_t best_value = kForever;
    // Under the cap of the minima pass the least maximum is attainable, so the tightest run finds a plan.
    NEST_CHECK(improve(*minima, cap_ps, theta, limit, best_value, best), "a pass lost its own plan");
    sum_low_ = std::max(sum_low_, minima->sum_ps + problem.extra_ps);
    theta = std::min(theta - 1, limit - best_value);
  }
  if (best.time_ps >= kForever) return std::nullopt;
  return best;
}

}  // namespace nest::search
