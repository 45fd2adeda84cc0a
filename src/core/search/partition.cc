#include "search/partition.h"

#include <algorithm>

#include "base/index.h"

namespace nest::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

double PartitionProblem::cap(double sum_s, double limit_s) const {
  return form.slowest_within(sum_s, limit_s, PartitionSolver::kEqual);
}

double PartitionProblem::least_sum_s(double sum_s, double limit_s) const {
  double left_out = 0;  // of t_s, in stages
  for (std::int64_t s = 0; s + 1 < std::ssize(stages); ++s) {
    const double share = form.share_of_passes(real(s));
    if (share == 1) break;
    left_out += 1 - share;
  }
  if (left_out == 0) return sum_s;
  return std::max(form.share_of_passes(0) * sum_s, sum_s - left_out * limit_s / form.micro_batches);
}

void PartitionSolver::price(NamedPrices& named, std::int64_t stage, std::int64_t begin, std::int64_t end) {
  named.epoch = epoch_;
  named.begin = static_cast<std::uint32_t>(pool_.size());
  prices_->price_options(stage, begin, end, pool_);
  named.count = static_cast<std::uint32_t>(pool_.size()) - named.begin;
  std::sort(pool_.begin() + named.begin, pool_.end(), [](const OptionPrice& a, const OptionPrice& b) {
    if (a.micro_s != b.micro_s) return a.micro_s < b.micro_s;
    if (a.step_s != b.step_s) return a.step_s < b.step_s;
    return a.option < b.option;
  });
}

// Pressure does not grow over stages that are alike: the ones where an option fits are all those from some stage on,
// found by bisection.
bool PartitionSolver::fits(const OptionPrice& option, std::int64_t stage, std::int64_t begin, std::int64_t end) {
  FitRange& known = *option.fit;
  const auto pressure = [&](std::int64_t s) { return problem_->stages[at(s)].pressure; };
  const auto is_settled = [&](std::int64_t s) { return pressure(s) <= known.most || pressure(s) >= known.least_not; };
  const auto settle = [&](std::int64_t s) {
    if (prices_->fits(s, begin, end, option.option)) {
      known.most = std::max(known.most, pressure(s));
    } else {
      known.least_not = std::min(known.least_not, pressure(s));
    }
  };
  const double wanted = pressure(stage);
  if (!is_settled(stage)) {
    settle(stage);
    std::int64_t low = stage, high = alike_[at(stage)];
    while (wanted > known.most && high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      if (!is_settled(middle)) settle(middle);
      (pressure(middle) <= known.most ? high : low) = middle;
    }
  }
  return wanted <= known.most;
}

// Admissible positions of every cut when no stage exceeds the cap.
bool PartitionSolver::find_windows(double cap_s) {
  const std::vector<PartitionStage>& stages = problem_->stages;
  const std::int64_t n = problem_->layers, p = std::ssize(stages);
  low_.assign(at(p + 1), n);
  high_.assign(at(p + 1), 0);
  std::int64_t before = 0, after = 0;  // fewest layers of the stages there
  for (std::int64_t s = 1; s < p; ++s) after += stages[at(s)].fewest_layers;
  for (std::int64_t s = 0; s < p; ++s) {
    const PartitionStage& stage = stages[at(s)];
    const double* const prefix = stage.prefix;
    const double room = cap_s - stage.waiting_low_s;
    if (room < 0) return false;
    const auto* const reach = std::upper_bound(prefix, prefix + n + 1, prefix[high_[at(s)]] + room + slack_s_);
    high_[at(s + 1)] = std::min<std::int64_t>(reach - prefix - 1, n - after);
    before += stage.fewest_layers;
    if (high_[at(s + 1)] < before) return false;
    if (s + 1 < p) after -= stages[at(s + 1)].fewest_layers;
  }
  if (high_[at(p)] < n) return false;
  for (std::int64_t s = p - 1; s >= 0; --s) {
    const PartitionStage& stage = stages[at(s)];
    const double* const prefix = stage.prefix;
    const double room = cap_s - stage.waiting_low_s;
    const auto* const reach = std::lower_bound(prefix, prefix + n + 1, prefix[low_[at(s + 1)]] - room - slack_s_);
    before -= stage.fewest_layers;
    low_[at(s)] = std::max<std::int64_t>(reach - prefix, before);
    if (low_[at(s)] > high_[at(s)]) return false;
  }
  return true;
}

// Least sum of the plans with every t <= cap and every y < theta.
std::optional<PartitionSolver::Found> PartitionSolver::pass(double cap_s, double theta_s, PartitionPlan& plan) {
  ++passes_;
  if (!find_windows(cap_s)) return std::nullopt;
  const std::int64_t n = problem_->layers, p = std::ssize(problem_->stages);
  const std::size_t width = at(n + 1);
  const double most_s = cap_s + slack_s_;
  const char* const may_cut = problem_->may_cut.data();
  cells_.assign(width * at(p + 1), Cell{kNever, -1, -1});
  cells_[0].sum_s = 0;
  for (std::int64_t s = 0; s < p; ++s) {
    bool any = false;
    const PartitionStage& stage = problem_->stages[at(s)];
    const double* const prefix = stage.prefix;
    const double* const arriving = s > 0 ? problem_->boundary_s[at(s - 1)].data() : nullptr;
    const double* const leaving = s + 1 < p ? problem_->boundary_s[at(s)].data() : nullptr;
    const Cell* const here = &cells_[at(s) * width];
    Cell* const next = &cells_[at(s + 1) * width];
    const std::int64_t first = low_[at(s + 1)], last = high_[at(s + 1)];
    const double of_passes = problem_->form.share_of_passes(real(s)), of_rest = problem_->form.share_of_rest(real(s));
    for (std::int64_t i = low_[at(s)]; i <= high_[at(s)]; ++i) {
      const double before = here[i].sum_s;
      if (before == kNever) continue;
      const double waiting = stage.extra_s + (arriving != nullptr ? arriving[i] : 0);
      const int* const names = stage.names + i * (n + 1);
      for (std::int64_t j = std::max(i + stage.fewest_layers, first); j <= last; ++j) {
        if (j < n && may_cut[j] == 0) continue;
        const double layers = prefix[j] - prefix[i];
        if (layers > most_s) break;
        const double base = layers + waiting + (leaving != nullptr ? leaving[j] : 0);
        if (base > most_s) continue;
        if (deadline_ != nullptr) deadline_->check_often(calls_);
        NamedPrices& named = named_[at(names[j])];
        if (named.epoch != epoch_) price(named, s, i, j);
        for (std::uint32_t k = named.begin; k < named.begin + named.count; ++k) {
          const OptionPrice& option = pool_[k];
          const double time = base + option.micro_s;
          if (time > most_s) break;
          if (option.step_s >= theta_s) continue;
          double sum = before + of_passes * time;
          if (sum >= next[j].sum_s) break;
          sum += of_rest * (s == 0 ? option.first_after_s : option.after_s);
          const FitRange& known = *option.fit;
          if (stage.pressure > known.most && (stage.pressure >= known.least_not || !fits(option, s, i, j))) {
            if (option.grows && prices_->extend(s, i, j, option.option)) {
              price(named, s, i, j);  // the pool moves
              k = named.begin - 1;
            }
            continue;
          }
          any = true;
          if (sum < next[j].sum_s) next[j] = {sum, static_cast<std::int32_t>(i), static_cast<std::int32_t>(k)};
          if (of_rest == 0) break;  // what follows is slower
        }
      }
    }
    if (!any) return std::nullopt;
  }
  if (cells_.back().sum_s == kNever) return std::nullopt;
  return trace(plan);
}

double PartitionSolver::stage_s(std::int64_t stage, std::int64_t begin, std::int64_t end,
                                const OptionPrice& option) const {
  const PartitionStage& own = problem_->stages[at(stage)];
  double seconds = own.prefix[end] - own.prefix[begin] + own.extra_s + option.micro_s;
  if (begin > 0) seconds += problem_->boundary_s[at(stage - 1)][at(begin)];
  if (end < problem_->layers) seconds += problem_->boundary_s[at(stage)][at(end)];
  return seconds;
}

PartitionSolver::Found PartitionSolver::trace(PartitionPlan& plan) const {
  const std::int64_t n = problem_->layers, p = std::ssize(problem_->stages);
  const std::size_t width = at(n + 1);
  plan.cuts.assign(at(p + 1), n);
  plan.options.assign(at(p), 0);
  Found found{0, cells_.back().sum_s, 0};
  for (std::int64_t s = p, j = n; s > 0; --s) {
    const Cell& cell = cells_[at(s) * width + at(j)];
    const OptionPrice& option = pool_[at(cell.priced)];
    found.slowest_s = std::max(found.slowest_s, stage_s(s - 1, cell.from, j, option));
    found.step_s = std::max(found.step_s, option.step_s);
    plan.options[at(s - 1)] = option.option;
    plan.cuts[at(s - 1)] = j = cell.from;
  }
  return found;
}

std::optional<PartitionPlan> PartitionSolver::search(double limit_s) {
  PartitionPlan best;
  best.time_s = limit_s * (1 + kEqual);
  bool any = false;
  double theta = kNever;
  const double slowest_low = problem_->slowest_low_s * (1 - kEqual);
  while (theta > problem_->step_low_s) {
    double value_low = kNever, its_step = kNever;
    double highest =
        problem_->cap(problem_->least_sum_s(problem_->sum_low_s, best.time_s), best.time_s - problem_->once_low_s);
    while (highest >= slowest_low) {
      PartitionPlan plan;
      const std::optional<Found> found = pass(highest, theta, plan);
      if (!found) break;
      const double own = problem_->form.value(found->slowest_s, found->sum_s);
      if (own < value_low) {
        value_low = own;
        its_step = found->step_s;
      }
      if (own + found->step_s < best.time_s) {
        best = std::move(plan);
        best.time_s = own + found->step_s;
        any = true;
      }
      if (found->slowest_s <= 0) break;  // nothing is faster
      highest = std::min({found->slowest_s * (1 - 2 * kEqual) - 2 * std::max(kEqual * problem_->sum_low_s, slack_s_),
                          problem_->cap(found->sum_s, value_low),
                          problem_->cap(found->sum_s, best.time_s - problem_->step_low_s)});
    }
    if (value_low == kNever) break;
    // The second is the larger one in exact arithmetic; a difference of times that are nearly equal may round above it.
    theta = std::min(best.time_s - value_low, its_step);
  }
  if (!any) return std::nullopt;
  return best;
}

std::optional<PartitionPlan> PartitionSolver::solve(const PartitionProblem& problem, StagePrices& prices,
                                                    double limit_s) {
  problem_ = &problem;
  prices_ = &prices;
  ++epoch_;
  pool_.clear();
  if (named_.size() < at(problem.names)) named_.resize(at(problem.names));
  slack_s_ = 0;
  const std::vector<PartitionStage>& stages = problem.stages;
  alike_.assign(stages.size(), std::ssize(stages));
  for (std::int64_t s = std::ssize(stages) - 1; s >= 0; --s) {
    slack_s_ = std::max(slack_s_, stages[at(s)].prefix[problem.layers] * kEqual);
    if (s + 1 == std::ssize(stages)) continue;
    const PartitionStage &here = stages[at(s)], &after = stages[at(s + 1)];
    const bool alike = here.names == after.names && after.pressure <= here.pressure;
    alike_[at(s)] = alike ? alike_[at(s + 1)] : s + 1;
  }
  return problem.uniform ? search_uniform(limit_s) : search(limit_s);
}

std::optional<PartitionPlan> PartitionSolver::search_uniform(double limit_s) {
  std::optional<PartitionPlan> best;
  for (int option = 0; option < problem_->options; ++option) {
    const double limit = best ? best->time_s * (1 - 2 * kEqual) : limit_s;
    if (!prices_->restrict_to(option, limit)) continue;
    ++epoch_;
    pool_.clear();
    auto plan = search(limit);
    if (plan) best = std::move(plan);
  }
  return best;
}

}  // namespace nest::search
