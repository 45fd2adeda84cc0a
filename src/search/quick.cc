#include "search/quick.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "search/evaluate.h"
#include "search/stage_cost.h"

namespace nest::search {
namespace {

constexpr std::size_t kSolved = 6;  // best sampled keys that are solved exactly
constexpr int kClimbs = 12;         // steps from neighbour to neighbour

// Boundaries nearest to equal shares of the time, each stage keeping at least `least` layers.
std::vector<std::int64_t> balanced_cuts(const Priced& priced, std::int64_t stages, std::int64_t least) {
  const std::vector<std::int64_t>& prefix = priced.time_prefix();
  std::vector<std::int64_t> cuts{0};
  for (std::int64_t s = 1; s < stages; ++s) {
    const auto goal = static_cast<std::int64_t>(static_cast<Int128>(prefix.back()) * s / stages);
    std::int64_t at = std::lower_bound(prefix.begin(), prefix.end(), goal) - prefix.begin();
    const auto i = static_cast<std::size_t>(at);
    if (i > 0 && goal - prefix[i - 1] < prefix[i] - goal) --at;
    cuts.push_back(std::clamp(at, cuts.back() + least, priced.size() - least * (stages - s)));
  }
  cuts.push_back(priced.size());
  return cuts;
}

// A few replica counts worth trying, all admissible.
std::vector<std::int64_t> sample_replicas(const Problem& problem, const Space& space, std::int64_t stages,
                                          int schedule) {
  std::vector<std::int64_t> result;
  const std::int64_t least = space.least_replicas();
  std::int64_t most = space.most_replicas(stages);
  while (most >= least) {
    std::int64_t replicas = most;
    while (replicas >= least && !space.admits(stages, schedule, replicas, problem.inner_replicas.low)) --replicas;
    if (replicas < least) break;
    result.push_back(replicas);
    if (problem.objective == Objective::time) break;
    most = replicas / 2;
  }
  return result;
}

// One, all, and as many as stay inside the smallest unit.
std::vector<std::int64_t> sample_inner(const Problem& problem, const Space& space, std::int64_t replicas) {
  std::vector<std::int64_t> result{1, replicas};
  if (!problem.network->alignments().empty()) {
    const std::int64_t unit = problem.network->alignments().front();
    for (std::int64_t inner = std::min(replicas, unit / space.block()); inner > 1; --inner) {
      if (replicas % inner != 0) continue;
      result.push_back(inner);
      break;
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Keys like this one with a few more or fewer stages, another schedule, somewhat fewer replicas, or other inner
// replicas.
std::vector<Key> neighbours(const Problem& problem, const Key& key) {
  const Space space(problem, key.split, key.micro_batch);
  std::vector<Key> result;
  for (std::int64_t step : {0, 1, -1, 2, -2, 3, -3, 5, -5, 8, -8, 13, -13}) {
    const std::int64_t stages = key.stages + step;
    if (stages < 1 || stages > space.most_stages() || !space.admits_stages(stages)) continue;
    for (int schedule = std::max(0, key.schedule - 1);
         schedule <= key.schedule + 1 && schedule < static_cast<int>(problem.schedules.size()); ++schedule) {
      if (!space.admits_schedule(stages, schedule)) continue;
      std::int64_t replicas = space.most_replicas(stages);
      for (int fewer = 0; fewer < 3 && replicas >= space.least_replicas(); ++fewer, --replicas) {
        for (std::int64_t inner = 1; inner <= std::min<std::int64_t>(replicas, 8); ++inner) {
          if (replicas % inner != 0 || !space.admits(stages, schedule, replicas, inner)) continue;
          for (std::int64_t pitch : space.pitches(stages, inner)) {
            if (replicas > space.fitting(stages, inner, pitch)) break;
            result.push_back({key.split, key.micro_batch, stages, schedule, replicas, inner, pitch});
            if (replicas == inner) break;  // one pipeline has no pitch
          }
        }
      }
    }
  }
  return result;
}

// Arithmetic bound of one key.
Score key_bound(const Shared& shared, const Key& key, const PlacementClass& placed) {
  const std::int64_t v = shared.chunks(key.schedule);
  const TrafficBound traffic(shared.problem(), shared.priced(key), placed.sync);
  const IterationBound low = iteration_bound(chain_bound(shared.priced(key), placed, key.stages, v), traffic,
                                             key.stages, micro_batches_of(shared.problem(), key), v);
  return shared.score(low.time_ps, devices_of(shared.problem(), key));
}

// Moves to the neighbour with the least bound that turns out better, until none does.
void climb(const Shared& shared, Offer best, Incumbents& incumbents, Opener& opener, Counters& counters,
           const std::function<bool()>& expired) {
  for (int step = 0; step < kClimbs; ++step) {
    std::vector<std::pair<Score, Key>> ranked;
    for (const Key& key : neighbours(shared.problem(), best.key)) {
      const Score low = key_bound(shared, key, shared.place(key));
      if (low < best.score) ranked.push_back({low, key});
    }
    std::sort(ranked.begin(), ranked.end());
    bool better = false;
    for (std::size_t i = 0; i < std::min<std::size_t>(ranked.size(), 24) && !expired(); ++i) {
      if (ranked[i].first >= best.score) break;
      if (std::optional<Offer> solved = opener.solve(ranked[i].second, best.score - 1, counters)) {
        incumbents.offer(*solved);
        best = std::move(*solved);
        better = true;
      }
    }
    if (!better) return;
  }
}

}  // namespace

std::optional<Offer> balanced_plan(const Shared& shared, const Key& key, const PlacementClass& placed) {
  const Problem& problem = shared.problem();
  const Priced& priced = shared.priced(key);
  const Schedule schedule = problem.schedules[static_cast<std::size_t>(key.schedule)];
  const std::int64_t v = schedule.chunks, m = micro_batches_of(problem, key);
  PartitionPlan plan;
  plan.cuts = balanced_cuts(priced, key.stages, v);
  std::int64_t slowest = 0, sum = 0, per_iteration = 0;
  const auto hop = [&](std::int64_t boundary, const Line& line) {
    return v * line.at(priced.table().cut_bytes[static_cast<std::size_t>(priced.cut_kind(boundary))]);
  };
  for (std::int64_t s = 0; s < key.stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const IntervalSums sums = priced.sums(plan.cuts[at], plan.cuts[at + 1]);
    std::int64_t base = sums.time_ps;
    if (s > 0) base += hop(plan.cuts[at], placed.hop[at - 1]);
    if (s + 1 < key.stages) base += hop(plan.cuts[at + 1], placed.hop[at]);
    if (key.stages > 1 && (s == 0 || s + 1 == key.stages)) base += (v - 1) * placed.wrap.at(priced.table().wrap_bytes);
    const std::int64_t held = in_flight(schedule, key.stages, m, s);
    std::int64_t best = kForever, best_time = 0, best_once = 0;
    int best_code = -1;
    for (int code = 0; code < StageOption::kCodes; ++code) {
      const StageOption option = StageOption::from_code(code);
      const auto r = static_cast<std::size_t>(option.recompute), g = static_cast<std::size_t>(option.group);
      if (!problem.options.recompute[r] || !problem.options.zero[static_cast<std::size_t>(option.zero)]) continue;
      if (option.zero == 0 ? g == 1 : !problem.options.group[g]) continue;
      const ShardGroup& group = placed.sync.group[g];
      const ZeroCost zero = zero_cost(problem.state, option.zero, {problem.state, group, sums}, sums);
      if (zero.state_bytes + sums.working_bytes[r] + ceil_div(held * sums.kept_bytes[r], v) > problem.memory_bytes) {
        continue;
      }
      const std::int64_t time = base + sums.recompute_ps[r] + zero.per_micro_batch_ps;
      const std::int64_t cost = m * std::max(slowest, time) + time / v + std::max(per_iteration, zero.per_iteration_ps);
      if (cost < best) {
        best = cost;
        best_time = time;
        best_once = zero.per_iteration_ps;
        best_code = code;
      }
    }
    if (best_code < 0) return std::nullopt;
    plan.options.push_back(best_code);
    slowest = std::max(slowest, best_time);
    sum += best_time;
    per_iteration = std::max(per_iteration, best_once);
  }
  plan.time_ps = iteration_time(m, v, slowest, sum, per_iteration);
  return Offer{key, shared.score(plan.time_ps, devices_of(problem, key)), false, std::move(plan)};
}

void quick_plans(Shared& shared, const std::vector<Node>& pairs, Incumbents& incumbents, Opener& opener,
                 Counters& counters, const std::function<bool()>& expired) {
  const Problem& problem = shared.problem();
  std::vector<Offer> found;
  for (const Node& pair : pairs) {
    if (incumbents.cutoff().excludes(pair.low, pair.key) || expired()) break;
    if (!shared.is_priced(pair.key.split, pair.key.micro_batch)) {
      shared.price(pair.key.split, pair.key.micro_batch);
      ++counters.priced;
    }
    const Priced& priced = shared.priced(pair.key);
    const Space space(problem, pair.key.split, pair.key.micro_batch);
    for (std::int64_t stages = 1; stages <= space.most_stages(); stages = std::max(stages + 1, stages * 4 / 3)) {
      if (!space.admits_stages(stages)) continue;
      for (int schedule = 0; schedule < static_cast<int>(problem.schedules.size()); ++schedule) {
        if (!space.admits_schedule(stages, schedule)) continue;
        for (std::int64_t replicas : sample_replicas(problem, space, stages, schedule)) {
          for (std::int64_t inner : sample_inner(problem, space, replicas)) {
            if (!space.admits(stages, schedule, replicas, inner)) continue;
            Key key = pair.key;
            key.stages = stages;
            key.schedule = schedule;
            key.replicas = replicas;
            key.inner_replicas = inner;
            key.pitch = stages * inner * space.block();
            // Equal shares of the work, before anything is looked up.
            const Score share =
                shared.score(space.micro_batches(replicas) * (priced.total.time_ps / stages), devices_of(problem, key));
            const Cutoff cutoff = incumbents.cutoff();
            if (cutoff.excludes(share, key)) continue;
            const PlacementClass placed = shared.place(key);
            if (cutoff.excludes(key_bound(shared, key, placed), key)) continue;
            if (std::optional<Offer> offer = balanced_plan(shared, key, placed)) {
              incumbents.offer(*offer);
              found.push_back(std::move(*offer));
            }
          }
        }
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Offer& a, const Offer& b) { return a.score < b.score; });
  if (found.size() > kSolved) found.resize(kSolved);
  std::vector<Offer> tops;
  for (const Offer& offer : found) {
    if (expired()) return;
    std::optional<Offer> solved = opener.solve(offer.key, offer.score, counters);
    if (!solved) continue;
    incumbents.offer(*solved);
    const bool seen =
        std::any_of(tops.begin(), tops.end(), [&](const Offer& o) { return o.key.split == solved->key.split; });
    if (!seen) tops.push_back(std::move(*solved));
  }
  for (const Offer& top : tops) climb(shared, top, incumbents, opener, counters, expired);
}

}  // namespace nest::search
