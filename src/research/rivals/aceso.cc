#include "rivals/aceso.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/index.h"
#include "rivals/aceso_primitives.h"
#include "rivals/settle.h"

namespace nest::rivals {
namespace {

constexpr int kMostHops = 7;                        // as published
constexpr std::size_t kBranches = 6;                // followed of every plan, the best first
constexpr std::int64_t kPricesPerIteration = 1200;  // before the next bottleneck is asked
constexpr std::int64_t kPricesPerStart = 20'000;
constexpr std::size_t kBottlenecks = 3;  // stages asked before a start is given up

// Plans that fit before those that do not; then time, or what is missing.
struct Score {
  double missing = 0;  // fullness above 1
  double time_s = 0;

  static Score of(const ConfigurationPrice& price) { return {price.fits() ? 0 : price.fullness, price.time_s}; }
  bool operator<(const Score& other) const {
    return missing != other.missing ? missing < other.missing : time_s < other.time_s;
  }
  bool beats(const Score& other) const {
    constexpr double kClearly = 1e-9;
    if (missing != other.missing) return missing < other.missing * (1 - kClearly);
    return time_s < other.time_s * (1 - kClearly);
  }
};

class Alleviation {
 public:
  Alleviation(const search::PlanSpace& space, ConfigurationPricer& pricer, const Deadline& deadline)
      : space_(space), pricer_(pricer), deadline_(deadline) {}

  // Where the search from this start ends.
  std::pair<Score, Configuration> alleviate(Configuration start) {
    const std::int64_t from = pricer_.priced();
    best_ = std::move(start);
    best_score_ = Score::of(pricer_.price(best_));
    bool better = true;
    while (better && pricer_.priced() - from < kPricesPerStart && !deadline_.is_over()) {
      better = false;
      const ConfigurationPrice price = pricer_.price(best_);
      const std::vector<std::int64_t> order = bottleneck_order(price);
      for (std::size_t k = 0; k < std::min(order.size(), kBottlenecks) && !better; ++k) {
        seen_.clear();
        budget_ = pricer_.priced() + kPricesPerIteration;
        better = improve(best_, order[k], kMostHops);
      }
    }
    return {best_score_, best_};
  }

 private:
  using Name = std::pair<search::Key, std::pair<std::vector<std::int64_t>, std::vector<int>>>;
  struct Candidate {
    Score score;
    Configuration configuration;
  };

  // Looks for a sequence of changes that beats the best; the first one found becomes it.
  bool improve(const Configuration& here, std::int64_t stage, int hops) {
    if (hops == 0 || pricer_.priced() >= budget_ || deadline_.is_over()) return false;
    const ConfigurationPrice price = pricer_.price(here);
    for (const Resource resource : scarce_resources(price, stage)) {
      std::vector<Candidate> candidates;
      for (Configuration& next : relieved(space_, pricer_, here, price, stage, resource)) {
        if (!seen_.insert(Name{next.key, {next.cuts, next.options}}).second) continue;
        candidates.push_back({Score::of(pricer_.price(next)), std::move(next)});
      }
      if (candidates.empty()) continue;
      std::stable_sort(candidates.begin(), candidates.end(),
                       [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
      if (candidates.front().score.beats(best_score_)) {
        best_score_ = candidates.front().score;
        best_ = std::move(candidates.front().configuration);
        return true;
      }
      candidates.resize(std::min(candidates.size(), kBranches));
      for (const Candidate& candidate : candidates) {
        const std::int64_t next_stage = bottleneck_order(pricer_.price(candidate.configuration)).front();
        if (improve(candidate.configuration, next_stage, hops - 1)) return true;
      }
    }
    return false;
  }

  const search::PlanSpace& space_;
  ConfigurationPricer& pricer_;
  const Deadline& deadline_;
  std::set<Name> seen_;
  std::int64_t budget_ = 0;
  Configuration best_;
  Score best_score_;
};

// Numbers of stages: all up to 8, then in steps of about a quarter, and powers of two.
std::vector<std::int64_t> stage_counts(const search::PlanSpace& space) {
  constexpr std::int64_t kAll = 8;
  std::vector<std::int64_t> counts;
  for (std::int64_t p = 1; p <= std::min(space.layers(), space.devices()); ++p) {
    if (!space.limits().pp.admits(p)) continue;
    const bool stepped = counts.empty() || p >= counts.back() + std::max<std::int64_t>(1, counts.back() / 4);
    if (p <= kAll || stepped || (p & (p - 1)) == 0) counts.push_back(p);
  }
  return counts;
}

// Tensor-parallel degrees to start from: none, half a node, a node.
std::vector<int> start_splits(const search::PlanSpace& space) {
  const std::int64_t node = usual_node(space.job().cluster);
  std::vector<int> starts;
  for (const std::int64_t wanted : {std::int64_t{1}, std::max<std::int64_t>(1, node / 2), node}) {
    // Limits that admit nothing so small are followed all the same.
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    for (const Split& split : space.splits()) most = std::min(most, split.tp);
    most = std::max(most, wanted);
    int best = -1;
    for (int k = 0; k < static_cast<int>(space.splits().size()); ++k) {
      const Split& split = space.splits()[at(k)];
      if (split.tp > most) continue;
      // As close as possible, whole sequences, experts not spread, sequence parallelism with tensors.
      const auto rank = [&](const Split& s) {
        return std::array<std::int64_t, 5>{s.tp, -s.cp, -s.ep, s.sp ? 1 : 0, s.etp == 0 ? 1 : 0};
      };
      if (best < 0 || rank(split) > rank(space.splits()[at(best)])) best = k;
    }
    if (best >= 0 && std::find(starts.begin(), starts.end(), best) == starts.end()) starts.push_back(best);
  }
  return starts;
}

// Of every kind of schedule the first that is admitted with the split and the stages, in the smallest micro-batch.
std::vector<Configuration> starts_of(const search::PlanSpace& space, ConfigurationPricer& pricer, int split,
                                     std::int64_t stages, bool together) {
  std::vector<Configuration> starts;
  std::set<Schedule> seen;
  for (int schedule = 0; schedule < static_cast<int>(space.schedules().size()); ++schedule) {
    if (seen.contains(space.schedules()[at(schedule)].kind)) continue;
    for (int size = 0; size < static_cast<int>(space.micro_batches().size()); ++size) {
      Configuration start;
      start.key.split = split;
      start.key.stages = stages;
      start.key.schedule = schedule;
      start.key.micro_batch = size;
      auto filled = refilled(space, pricer, start, together);
      if (!filled) continue;
      seen.insert(space.schedules()[at(schedule)].kind);
      starts.push_back(std::move(*filled));
      break;
    }
  }
  return starts;
}

}  // namespace

RivalAnswer plan_aceso(const RivalRequest& request) {
  const Deadline deadline(request);
  const search::PlanSpace space(*request.job, published_limits(request), device_limit(request));
  search::PriceCache prices(*request.job);
  ConfigurationPricer pricer(space, prices);
  BestPlan best(space);
  const std::vector<int> splits = start_splits(space);
  bool started = false;
  const auto search_from = [&](std::int64_t stages, int split, bool together) {
    for (Configuration& start : starts_of(space, pricer, split, stages, together)) {
      if (deadline.is_over()) return;
      started = true;
      const auto [score, end] = Alleviation(space, pricer, deadline).alleviate(std::move(start));
      if (score.missing == 0 && (best.is_empty() || score.time_s < best.time_s())) {
        best.offer(space.strategy(end.key), stages_of(space, end));
      }
    }
  };
  for (const std::int64_t stages : stage_counts(space)) {
    for (const int split : splits) {
      if (deadline.is_over()) break;
      search_from(stages, split, true);
      if (stages > 1) search_from(stages, split, false);
    }
  }
  const bool stopped = deadline.is_over();
  std::string note;
  if (best.is_empty()) note = started ? "no start leads to a plan that fits" : "no start is admitted";
  return best.answer(request, pricer.priced(), deadline.elapsed_s(), stopped, std::move(note));
}

}  // namespace nest::rivals
