#include "search/space.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace nest::search {
namespace {

// Pairs (x, k) with x <= most and k a divisor of x: the sum of floor(most / k), in blocks of equal quotients.
std::int64_t divisor_pairs(std::int64_t most) {
  std::int64_t pairs = 0;
  for (std::int64_t k = 1; k <= most;) {
    const std::int64_t quotient = most / k, last = most / quotient;
    pairs += quotient * (last - k + 1);
    k = last + 1;
  }
  return pairs;
}

}  // namespace

void validate(const Problem& problem) {
  const auto need = [](bool condition, const char* message) {
    if (!condition) throw InputError(message);
  };
  need(problem.network != nullptr && problem.pricer != nullptr, "a problem needs a network and a pricer");
  need(problem.chain.size() >= 1, "the chain has no layers");
  need(problem.chain.cut_kind.size() == problem.chain.layer_type.size() + 1,
       "a chain needs one boundary more than layers");
  need(problem.global_batch >= 1 && problem.devices >= 1, "batch and devices must be positive");
  need(!problem.splits.empty() && !problem.micro_batches.empty() && !problem.schedules.empty(),
       "a problem needs at least one split, micro-batch size and schedule");
  for (const SplitChoice& split : problem.splits) {
    need(split.tensor >= 1 && split.context >= 1 && split.expert >= 1, "degrees of a split must be positive");
  }
  for (std::int64_t size : problem.micro_batches) need(size >= 1, "micro-batch sizes must be positive");
  for (const Schedule& schedule : problem.schedules) {
    need(schedule.chunks >= 1 && (schedule.kind == ScheduleKind::interleaved) == (schedule.chunks > 1),
         "interleaved schedules have more than one chunk, others exactly one");
  }
  need(problem.state.exposed_1024ths >= 0 && problem.state.exposed_1024ths <= 1024,
       "an exposed part exceeds the whole");
  need(problem.stages.low >= 1 && problem.replicas.low >= 1 && problem.inner_replicas.low >= 1, "limits start at one");
}

Space::Space(const Problem& problem, int split, int micro_batch)
    : problem_(&problem),
      a_(problem.splits[static_cast<std::size_t>(split)].devices()),
      round_(problem.micro_batches[static_cast<std::size_t>(micro_batch)] *
             problem.splits[static_cast<std::size_t>(split)].expert) {}

std::int64_t Space::most_stages() const {
  return std::min({problem_->chain.size(), problem_->devices / a_, problem_->stages.high});
}

bool Space::admits_schedule(std::int64_t stages, int schedule) const {
  const Schedule& wanted = problem_->schedules[static_cast<std::size_t>(schedule)];
  return wanted.chunks == 1 || (stages > 1 && stages * wanted.chunks <= problem_->chain.size());
}

std::int64_t Space::most_replicas(std::int64_t stages) const {
  return std::min(
      {ceil_div(problem_->global_batch, round_), problem_->devices / (stages * a_), problem_->replicas.high});
}

std::int64_t Space::micro_batches(std::int64_t replicas) const {
  return ceil_div(problem_->global_batch, round_ * replicas);
}

Plateau Space::plateau(std::int64_t stages, std::int64_t micro_batches) const {
  const std::int64_t batch = problem_->global_batch;
  const std::int64_t most = most_replicas(stages), least = least_replicas();
  if (most < least) return {};
  std::int64_t m = std::max(micro_batches, this->micro_batches(most));
  // Replicas with m micro-batches: batch <= round * m * replicas and, for m > 1, batch > round * (m - 1) * replicas.
  std::int64_t low = ceil_div(batch, round_ * m);
  m = this->micro_batches(low);  // an m that no replica count yields: the next smaller one that is
  if (m < micro_batches) {
    if (low <= 1) return {};
    m = this->micro_batches(low - 1);
    low = ceil_div(batch, round_ * m);
  }
  const std::int64_t high = m == 1 ? most : std::min(most, ceil_div(batch, round_ * (m - 1)) - 1);
  low = std::max(low, least);
  if (low > high) return {};
  return {m, low, high};
}

bool Space::admits(std::int64_t stages, int schedule, std::int64_t replicas, std::int64_t inner) const {
  if (!problem_->replicas.admits(replicas) || !problem_->inner_replicas.admits(inner)) return false;
  if (problem_->even_batch && problem_->global_batch % (round_ * replicas) != 0) return false;
  const bool interleaved = problem_->schedules[static_cast<std::size_t>(schedule)].chunks > 1;
  return !(interleaved && problem_->interleave_multiple) || micro_batches(replicas) % stages == 0;
}

std::vector<std::int64_t> Space::pitches(std::int64_t stages, std::int64_t inner) const {
  const std::int64_t bare = stages * inner * a_;
  std::vector<std::int64_t> result{bare};
  if (problem_->padding) {
    for (std::int64_t unit : problem_->network->alignments()) result.push_back(round_up(bare, unit));
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::int64_t Space::fitting(std::int64_t stages, std::int64_t inner, std::int64_t pitch) const {
  const std::int64_t spare = problem_->devices - stages * inner * a_;
  return spare < 0 ? 0 : inner * (spare / pitch + 1);
}

std::int64_t Space::count_keys() const {
  if (!admissible()) return 0;
  const bool filtered = problem_->even_batch || problem_->interleave_multiple || !problem_->replicas.only.empty() ||
                        !problem_->inner_replicas.only.empty() || problem_->inner_replicas.low > 1 ||
                        problem_->inner_replicas.high < problem_->devices;
  std::int64_t keys = 0, last_most = -1, last_pairs = 0;
  for (std::int64_t stages = 1; stages <= most_stages(); ++stages) {
    if (!admits_stages(stages)) continue;
    const std::int64_t most = most_replicas(stages), least = least_replicas();
    if (most != last_most) {
      last_most = most;
      last_pairs = filtered ? 0 : divisor_pairs(most) - divisor_pairs(least - 1);
    }
    for (int schedule = 0; schedule < static_cast<int>(problem_->schedules.size()); ++schedule) {
      if (!admits_schedule(stages, schedule)) continue;
      keys += last_pairs;
      for (std::int64_t inner = 1; filtered && inner <= most; ++inner) {
        for (std::int64_t r = round_up(least, inner); r <= most; r += inner) keys += admits(stages, schedule, r, inner);
      }
    }
  }
  return keys;
}

}  // namespace nest::search
