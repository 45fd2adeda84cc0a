#include "rivals/partition.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "cost/constants.h"
#include "cost/group_time.h"

namespace nest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kEqual = 1e-12;  // relative width within which times count as equal

std::size_t slot(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

ChainPartition::ChainPartition(const PlanSpace& space, PriceCache& prices)
    : space_(&space),
      prices_(&prices),
      rule_(sync_rule(space.job())),
      floor_(space.job(), space.limits()),
      may_cut_(slot(space.layers() + 1), true),
      options_(static_cast<std::size_t>(space.intervals())) {}

void ChainPartition::cut_only_at(const std::vector<std::int64_t>& positions) {
  may_cut_.assign(may_cut_.size(), false);
  for (const std::int64_t position : positions) may_cut_[slot(position)] = true;
}

void ChainPartition::look_at(const Strategy& strategy) {
  NEST_CHECK(strategy.virtual_stages == 1, "stages of a partition are whole");
  strategy_ = strategy;
  pair_ = prices_->get(space_->job(), strategy.split, strategy.micro_batch);
  rounds_ = static_cast<double>(micro_batches(strategy, space_->job().run.global_batch) - 1);
  least_sum_s_ = pair_->total_s(strategy.pp > 1);
  least_slowest_s_ = pair_->slowest_s(strategy.pp);
}

double ChainPartition::bound_s(const Strategy& strategy) {
  look_at(strategy);
  return (rounds_ * least_slowest_s_ + least_sum_s_ + constants::kStep_s) * (1 - kEqual);
}

void ChainPartition::price_network() {
  const Job& job = space_->job();
  const std::int64_t p = strategy_.pp;
  for (const int zero : {0, 3}) {
    lines_[zero == 3 ? 1 : 0] = sync_lines(job, strategy_, pair_->table(), zero, 0);
  }
  flight_.clear();
  const std::int64_t m = micro_batches(strategy_, job.run.global_batch);
  for (std::int64_t s = 0; s < p; ++s) flight_.push_back(in_flight(strategy_.schedule, p, 1, s, m));
  hop_s_.assign(slot(p - 1), std::vector<double>(slot(space_->layers() + 1), 0));
  if (!messages_) return;
  // Which links a message crosses does not depend on how large it is.
  const auto [place, fresh] = known_hops_.try_emplace(
      {strategy_.devices_per_stage(), p, strategy_.dp, strategy_.dp_inner, strategy_.effective_pitch()});
  for (std::int64_t s = 0; fresh && s + 1 < p; ++s) {
    place->second.push_back(message_line(job.cluster, strategy_, s, s + 1));
  }
  for (std::int64_t s = 0; s + 1 < p; ++s) {
    for (std::int64_t i = 1; i < space_->layers(); ++i) {
      hop_s_[slot(s)][slot(i)] = place->second[slot(s)].at(pair_->table().cut_bytes[slot(i - 1)]);
    }
  }
}

// The options of a stage with these layers, fastest first; whether they fit is looked at when somebody asks.
std::vector<ChainPartition::Option>& ChainPartition::options(std::int64_t begin, std::int64_t end) {
  const int interval = space_->interval(begin, end);
  std::vector<Option>& options = options_[static_cast<std::size_t>(interval)];
  if (!options.empty()) return options;
  priced_.push_back(interval);
  const PlanLimits& limits = space_->limits();
  const StageSums sums = pair_->sums(begin, end, strategy_.pp > 1);
  for (int recompute = 0; recompute < 3; ++recompute) {
    for (int zero = 0; zero < 4; ++zero) {
      const auto mode = static_cast<std::size_t>(recompute);
      if (!limits.recompute[mode] || !limits.zero[static_cast<std::size_t>(zero)]) continue;
      const StageCost cost = stage_cost(space_->job(), rule_, strategy_, sums, lines_[zero == 3 ? 1 : 0], zero,
                                        static_cast<Recompute>(recompute));
      options.push_back({sums.recompute_s[mode] + cost.micro_exposed_s,
                         cost.sync_exposed_s + cost.optimizer_s + cost.deferred_s + constants::kStep_s, recompute,
                         zero});
    }
  }
  std::stable_sort(options.begin(), options.end(), [](const Option& a, const Option& b) {
    return a.time_s != b.time_s ? a.time_s < b.time_s : a.step_s < b.step_s;
  });
  return options;
}

bool ChainPartition::fits_now(const Option& option, std::int64_t begin, std::int64_t end, std::int64_t stage) {
  const ZeroDegrees degrees = zero_degrees(strategy_, 0);
  if (floor_.bytes(*pair_, begin, end, option.zero, degrees, option.recompute, flight_[slot(stage)]) > room_bytes_) {
    return false;
  }
  StagePlan plan;
  plan.first = static_cast<int>(begin);
  plan.last = static_cast<int>(end - 1);
  plan.zero = option.zero;
  plan.zero_degree = 0;
  plan.recompute = static_cast<Recompute>(option.recompute);
  return pair_->memory().estimate(strategy_, plan, stage).needed <= space_->job().cluster.device.memory_bytes;
}

// Memory does not fall as more micro-batches are in flight.
bool ChainPartition::fits(Option& option, std::int64_t begin, std::int64_t end, std::int64_t stage) {
  const double flight = flight_[slot(stage)];
  if (flight <= option.fits) return true;
  if (flight >= option.misfits) return false;
  const bool here = fits_now(option, begin, end, stage);
  (here ? option.fits : option.misfits) = flight;
  return here;
}

// The fastest option that fits, takes no more than there is room for, and less than the cap per step.
ChainPartition::Option* ChainPartition::cheapest(std::int64_t begin, std::int64_t end, std::int64_t stage,
                                                 double room_s, double step_cap_s) {
  for (Option& option : options(begin, end)) {
    if (option.time_s > room_s) return nullptr;
    if (option.step_s >= step_cap_s || (only_ >= 0 && option.recompute * 4 + option.zero != only_)) continue;
    if (fits(option, begin, end, stage)) return &option;
  }
  return nullptr;
}

std::optional<ChainPartition::Found> ChainPartition::pass(double cap_s, double step_cap_s) {
  const std::int64_t n = space_->layers(), p = strategy_.pp;
  const std::vector<double>& prefix = pair_->prefix(p > 1);
  const double slack = prefix.back() * kEqual;
  const std::size_t width = slot(n + 1);
  cells_.assign(width * slot(p + 1), Cell{kInfinity, -1, nullptr});
  cells_[0].sum_s = 0;
  for (std::int64_t s = 0; s < p; ++s) {
    const std::int64_t after = p - s - 1;
    // What is left must fit into the stages that are left.
    const double reach = cap_s == kInfinity ? -1 : prefix.back() - static_cast<double>(after) * (cap_s + slack) - slack;
    bool any = false;
    for (std::int64_t i = s; i <= n - after - 1; ++i) {
      const double before = cells_[slot(s) * width + slot(i)].sum_s;
      if (before == kInfinity) continue;
      for (std::int64_t j = after == 0 ? n : i + 1; j <= n - after; ++j) {
        const double layers = prefix[slot(j)] - prefix[slot(i)];
        if (layers > cap_s + slack) break;
        if ((j < n && !may_cut_[slot(j)]) || prefix[slot(j)] < reach) continue;
        const double base =
            layers + (s > 0 ? hop_s_[slot(s - 1)][slot(i)] : 0) + (after > 0 ? hop_s_[slot(s)][slot(j)] : 0);
        Cell& cell = cells_[slot(s + 1) * width + slot(j)];
        const double room = std::min(cap_s + slack, cell.sum_s - before) - base;
        if (room < 0) continue;
        const Option* const option = cheapest(i, j, s, room, step_cap_s);
        if (option == nullptr || before + base + option->time_s >= cell.sum_s) continue;
        cell = {before + base + option->time_s, i, option};
        any = true;
      }
    }
    if (!any) return std::nullopt;
  }
  if (cells_.back().sum_s == kInfinity) return std::nullopt;
  return trace();
}

ChainPartition::Found ChainPartition::trace() const {
  const std::int64_t n = space_->layers(), p = strategy_.pp;
  const std::size_t width = slot(n + 1);
  Found found;
  found.sum_s = cells_.back().sum_s;
  for (std::int64_t s = p, j = n; s > 0; --s) {
    const Cell& cell = cells_[slot(s) * width + slot(j)];
    StagePlan stage;
    stage.first = static_cast<int>(cell.from);
    stage.last = static_cast<int>(j - 1);
    stage.zero = cell.option->zero;
    stage.zero_degree = 0;
    stage.recompute = static_cast<Recompute>(cell.option->recompute);
    found.stages.insert(found.stages.begin(), stage);
    found.slowest_s = std::max(found.slowest_s, cell.sum_s - cells_[slot(s - 1) * width + slot(cell.from)].sum_s);
    found.step_s = std::max(found.step_s, cell.option->step_s);
    j = cell.from;
  }
  return found;
}

// The slowest stage of a plan with this sum that takes `value_s` per step, y aside.
double ChainPartition::cap_s(double sum_s, double value_s) const {
  if (value_s == kInfinity) return kInfinity;
  if (rounds_ == 0) return sum_s <= value_s * (1 + kEqual) ? kInfinity : -1;
  return (value_s - sum_s) / rounds_ * (1 + kEqual);
}

void ChainPartition::search(Partition& best) {
  double step_cap = kInfinity;
  while (step_cap > constants::kStep_s) {
    double least = kInfinity, its_step = kInfinity;
    double cap = cap_s(least_sum_s_, best.time_s - constants::kStep_s);
    while (cap >= least_slowest_s_ * (1 - kEqual)) {
      std::optional<Found> found = pass(cap, step_cap);
      if (!found) break;
      const double value = rounds_ * found->slowest_s + found->sum_s;
      if (value < least) {
        least = value;
        its_step = found->step_s;
      }
      if (value + found->step_s < best.time_s) best = {value + found->step_s, std::move(found->stages)};
      if (rounds_ == 0) break;
      cap = std::min({found->slowest_s * (1 - 2 * kEqual) - 2 * kEqual * least_sum_s_, cap_s(found->sum_s, least),
                      cap_s(found->sum_s, best.time_s - constants::kStep_s)});
    }
    if (least == kInfinity) return;
    step_cap = std::min(best.time_s - least, its_step);
  }
}

std::optional<Partition> ChainPartition::solve(const Strategy& strategy, double limit_s) {
  if (bound_s(strategy) >= limit_s || !floor_.admits(strategy, *pair_)) return std::nullopt;
  price_network();
  room_bytes_ = static_cast<double>(space_->job().cluster.device.memory_bytes - context_bytes(space_->job(), strategy));
  for (const int interval : priced_) options_[static_cast<std::size_t>(interval)].clear();
  priced_.clear();
  Partition best{limit_s, {}};
  only_ = -1;
  if (!space_->limits().uniform) {
    search(best);
  } else {
    for (only_ = 0; only_ < 12; ++only_) search(best);
  }
  if (best.stages.empty()) return std::nullopt;
  return best;
}

}  // namespace nest
