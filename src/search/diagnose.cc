#include "search/diagnose.h"

#include <algorithm>

#include "base/checked.h"
#include "search/evaluate.h"
#include "search/stage_cost.h"

namespace nest::search {
namespace {

struct Need {
  std::int64_t bytes = kForever;
  StageOption option;
};

// Least memory of a stage over the admitted options.
Need stage_need(const Problem& problem, const SyncClass& sync, const IntervalSums& sums, std::int64_t held,
                std::int64_t chunks) {
  Need need;
  for (int code = 0; code < StageOption::kCodes; ++code) {
    const StageOption option = StageOption::from_code(code);
    const auto r = static_cast<std::size_t>(option.recompute), g = static_cast<std::size_t>(option.group);
    if (!problem.options.recompute[r] || !problem.options.zero[static_cast<std::size_t>(option.zero)]) continue;
    if (option.zero == 0 ? g == 1 : !problem.options.group[g]) continue;
    const ShardGroup& group = sync.group[g];
    const ZeroCost zero = zero_cost(problem.state, option.zero, {problem.state, group, sums}, sums);
    const std::int64_t bytes = zero.state_bytes + sums.working_bytes[r] + ceil_div(held * sums.kept_bytes[r], chunks);
    if (bytes < need.bytes) need = {bytes, option};
  }
  return need;
}

// Memory grows with the interval, so filling stages greedily from the front decides whether a limit suffices.
class LeastMemory {
 public:
  LeastMemory(const Shared& shared, const Key& key)
      : problem_(shared.problem()),
        priced_(shared.priced(key)),
        key_(key),
        sync_(shared.place(key).sync),
        schedule_(problem_.schedules[static_cast<std::size_t>(key.schedule)]),
        m_(micro_batches_of(problem_, key)) {}

  bool fits(std::int64_t limit, std::vector<std::int64_t>* cuts = nullptr) const {
    const std::int64_t n = priced_.size(), least = schedule_.chunks;
    std::int64_t from = 0;
    for (std::int64_t s = 0; s < key_.stages; ++s) {
      const std::int64_t last = n - least * (key_.stages - s - 1);
      std::int64_t low = from + least, high = last;
      if (low > last || need(s, from, low).bytes > limit) return false;
      while (low < high) {
        const std::int64_t middle = (low + high + 1) / 2;
        if (need(s, from, middle).bytes <= limit) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      from = low;
      if (cuts != nullptr) cuts->push_back(from);
    }
    return from == n;
  }

  Need need(std::int64_t s, std::int64_t begin, std::int64_t end) const {
    return stage_need(problem_, sync_, priced_.sums(begin, end), in_flight(schedule_, key_.stages, m_, s),
                      schedule_.chunks);
  }

 private:
  const Problem& problem_;
  const Priced& priced_;
  const Key& key_;
  SyncClass sync_;
  Schedule schedule_;
  std::int64_t m_;
};

void try_key(const Shared& shared, const Key& key, std::optional<Shortfall>& best) {
  const LeastMemory memory(shared, key);
  std::int64_t high = best ? best->needed_bytes - 1 : kForever;
  if (!memory.fits(high)) return;
  std::int64_t low = 0;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (memory.fits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  std::vector<std::int64_t> cuts{0};
  memory.fits(high, &cuts);
  for (std::int64_t s = 0; s < key.stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const Need need = memory.need(s, cuts[at], cuts[at + 1]);
    if (need.bytes != high) continue;
    best = Shortfall{key, s, cuts[at], cuts[at + 1], need.option, high, high - shared.problem().memory_bytes};
    return;
  }
}

}  // namespace

std::optional<Shortfall> nearest_fit(Shared& shared) {
  const Problem& problem = shared.problem();
  std::optional<Shortfall> best;
  for (int split = 0; split < static_cast<int>(problem.splits.size()); ++split) {
    for (int size = 0; size < static_cast<int>(problem.micro_batches.size()); ++size) {
      const Space space(problem, split, size);
      if (!space.admissible() || space.most_stages() < 1) continue;
      if (!shared.is_priced(split, size)) shared.price(split, size);
      for (std::int64_t stages = 1; stages <= space.most_stages(); ++stages) {
        if (!space.admits_stages(stages)) continue;
        for (int schedule = 0; schedule < static_cast<int>(problem.schedules.size()); ++schedule) {
          if (!space.admits_schedule(stages, schedule)) continue;
          std::int64_t replicas = space.most_replicas(stages);
          const std::int64_t inner = problem.inner_replicas.low;
          while (replicas >= space.least_replicas() &&
                 (replicas % inner != 0 || !space.admits(stages, schedule, replicas, inner))) {
            --replicas;
          }
          if (replicas < space.least_replicas()) continue;
          try_key(shared, {split, size, stages, schedule, replicas, inner, stages * inner * space.block()}, best);
        }
      }
    }
  }
  return best;
}

}  // namespace nest::search
