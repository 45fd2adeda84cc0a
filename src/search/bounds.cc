#include "search/bounds.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "search/space.h"

namespace nest::search {

Score work_bound(const Problem& problem, int split, int micro_batch, const WorkBound& work) {
  const Space space(problem, split, micro_batch);
  const Score spent = static_cast<Score>(problem.global_batch) * space.block() * work.total_time_ps;
  const Score one = work.largest_time_ps;
  if (problem.objective == Objective::device_time) return std::max(spent / space.round(), one * space.block());
  return std::max(spent / (static_cast<Score>(space.round()) * problem.devices), one);
}

namespace {

// Some stage holds the largest layer, and some stage its share of each run of identical layers.
std::int64_t longest_part(const Priced& priced, std::int64_t stages) {
  std::int64_t longest = priced.largest_time_ps;
  for (const ChainIndex::Run& run : priced.index().runs()) {
    const std::int64_t each = priced.table().layers[static_cast<std::size_t>(run.type)].time_ps;
    longest = std::max(longest, ceil_div(run.length, stages) * each);
  }
  return longest;
}

// Least maximum over contiguous parts of (sum of weights + cost of both cuts), for every number of parts. Parts grow
// from the back, so the scan over the last cut ends as soon as the weights alone exceed the best maximum: about n^2 log
// n steps.
std::vector<std::int64_t> least_maximum(const std::vector<std::int64_t>& prefix, const std::vector<std::int64_t>& cut) {
  const std::size_t n = prefix.size() - 1;
  std::vector<std::int64_t> result(n + 1, 0), now(n + 1, kForever), next(n + 1, kForever);
  now[0] = 0;
  for (std::size_t parts = 1; parts <= n; ++parts) {
    std::fill(next.begin(), next.end(), kForever);
    for (std::size_t j = parts; j <= n; ++j) {
      for (std::size_t i = j; i-- >= parts;) {
        const std::int64_t weight = prefix[j] - prefix[i];
        if (weight + cut[j] >= next[j]) break;
        next[j] = std::min(next[j], std::max(now[i], weight + cut[i] + cut[j]));
      }
    }
    now.swap(next);
    result[parts] = now[n];
  }
  return result;
}

}  // namespace

const CutCosts& CutCostCache::get(const Priced& priced, const Line& hop, std::int64_t chunks, bool slowest) {
  constexpr std::size_t kMost = 20'000;
  if (known_.size() >= kMost) known_.clear();
  const auto [place, fresh] = known_.try_emplace({&priced, hop.alpha_ps, hop.beta_ps_per_mib, chunks});
  CutCosts& costs = place->second;
  const auto width = static_cast<std::size_t>(priced.size()) + 1;
  if (fresh) {
    costs.hops_ps.assign(width, 0);
    for (std::size_t k = 1; k + 1 < width; ++k) {
      costs.hops_ps[k + 1] = costs.hops_ps[k] + 2 * chunks * hop.at(priced.cuts_by_bytes[k - 1]);
    }
  }
  if (slowest && costs.slowest_ps.empty()) {
    std::vector<std::int64_t> cut(width, 0);
    for (std::int64_t i = 1; i < priced.size(); ++i) {
      const std::int64_t bytes = priced.table().cut_bytes[static_cast<std::size_t>(priced.cut_kind(i))];
      cut[static_cast<std::size_t>(i)] = chunks * hop.at(bytes);
    }
    costs.slowest_ps = least_maximum(priced.time_prefix(), cut);
  }
  return costs;
}

const Peaks& CutCostCache::peaks(const Priced& priced) {
  const auto [place, fresh] = peaks_.try_emplace(&priced);
  if (!fresh) return place->second;
  const auto width = static_cast<std::size_t>(priced.size()) + 1;
  std::vector<std::int64_t> dense(width, 0), expert(width, 0);
  const std::vector<std::int64_t> free_cuts(width, 0);
  for (std::size_t i = 1; i < width; ++i) {
    const LayerCost& layer = priced.layer(static_cast<std::int64_t>(i) - 1);
    dense[i] = dense[i - 1] + layer.dense_parameters;
    expert[i] = expert[i - 1] + layer.expert_parameters;
  }
  place->second.dense = least_maximum(dense, free_cuts);
  place->second.expert = expert.back() > 0 ? least_maximum(expert, free_cuts) : expert;
  return place->second;
}

ChainBound chain_bound(const Priced& priced, const BoxClass& box, std::int64_t stages, std::int64_t chunks,
                       CutCostCache& cache, std::int64_t enough_ps) {
  const Line line = stages > 1 ? box.hop : Line{};
  const std::int64_t hop = line.at(priced.least_cut_bytes);
  ChainBound bound;
  std::int64_t wrap = 0;
  if (stages > 1) {
    wrap = (chunks - 1) * box.wrap.at(priced.table().wrap_bytes);
    for (const HopFloor& floor : box.floors) {
      // Differences of rounded numbers may fall by one as the bytes grow.
      const std::int64_t more = floor.line.at(priced.least_cut_bytes) - 1 - hop;
      bound.extra_ps = std::max(bound.extra_ps, 2 * chunks * floor.boundaries * more);
    }
  }
  const auto at = static_cast<std::size_t>(stages);
  bound.sum_ps = priced.total.time_ps + cache.get(priced, line, chunks, false).hops_ps[at] + 2 * wrap + bound.extra_ps;
  bound.slowest_ps = std::max(longest_part(priced, stages) + chunks * hop, ceil_div(bound.sum_ps, stages));
  if (bound.slowest_ps <= enough_ps) {
    bound.slowest_ps = std::max(bound.slowest_ps, cache.get(priced, line, chunks, true).slowest_ps[at]);
  }
  return bound;
}

ChainBound chain_bound(const Priced& priced, const PlacementClass& placed, std::int64_t stages, std::int64_t chunks) {
  ChainBound bound;
  bound.sum_ps = priced.total.time_ps;
  std::int64_t least_hop = 0;
  if (stages > 1) {
    least_hop = kForever;
    bound.sum_ps += 2 * (chunks - 1) * placed.wrap.at(priced.table().wrap_bytes);
    for (const Line& line : placed.hop) {
      const std::int64_t hop = chunks * line.at(priced.least_cut_bytes);
      least_hop = std::min(least_hop, hop);
      bound.sum_ps += 2 * hop;
    }
  }
  bound.slowest_ps = std::max(longest_part(priced, stages) + least_hop, ceil_div(bound.sum_ps, stages));
  return bound;
}

TrafficBound::TrafficBound(const Problem& problem, const Priced& priced, const SyncClass& sync)
    : least_exposed_(static_cast<double>(problem.state.exposed_1024ths) / 1024),
      dense_(static_cast<double>(priced.total.dense_parameters)),
      expert_(static_cast<double>(priced.total.expert_parameters)),
      hide_(static_cast<double>(priced.total.hide_ps)),
      hide_share_(priced.hide_share) {
  const StateRecipe& state = problem.state;
  constexpr double kMebi = 1 << 20;
  const auto rate = [](const Line& line) { return static_cast<double>(line.beta_ps_per_mib) / kMebi; };
  const auto gradients = static_cast<double>(state.gradient_traffic_bytes);
  const auto weights = static_cast<double>(state.weight_traffic_bytes);
  const double step_local = static_cast<double>(state.step_ps_per_mi_local) / kMebi;
  const double step_sharded = static_cast<double>(state.step_ps_per_mi_sharded) / kMebi;
  for (std::size_t g = 0; g < 2; ++g) {
    const ShardGroup& group = sync.group[g];
    for (std::size_t zero = g; zero < 4; ++zero) {
      if (!problem.options.zero[zero] || (zero > 0 && !problem.options.group[g])) continue;
      Exchange exchange{};
      const auto fill = [&](const Line& shard, const Line& replicate, std::int64_t degree, double& each, double& once,
                            double& step) {
        const double scatter = rate(shard) * gradients, gather = rate(shard) * weights;
        const double between = 2 * rate(replicate) * gradients;
        each = zero == 2 ? scatter : zero == 3 ? scatter + 2 * gather : 0;
        once = zero == 0   ? 2 * scatter + between
               : zero == 1 ? scatter + between + gather
               : zero == 2 ? between + gather
                           : between;
        step = step_local + step_sharded / (zero == 0 ? 1.0 : static_cast<double>(degree));
      };
      fill(group.dense_shard, group.dense_replicate, group.dense_degree, exchange.each_dense, exchange.once_dense,
           exchange.step_dense);
      fill(group.expert_shard, group.expert_replicate, group.expert_degree, exchange.each_expert, exchange.once_expert,
           exchange.step_expert);
      exchange.each_hides = zero == 2 ? 1 : zero == 3 ? 2 : 0;
      exchange.once_hides = 1;
      exchanges_[exchange_count_++] = exchange;
    }
  }
}

// For any price >= 0 of one unit of hiding time: an option costs at least (what it costs when hiding is bought at that
// price) - price * (hiding time of the stage). max(0, A - B * hide) >= share * (A - B * hide) for every share in [0,
// 1], so the exchanges are bought off in the order of A / B while share * B stays within the price. The cost of buying
// is linear in the parameters, so the minimum over options, taken for dense and expert parameters separately, bounds
// any mixture of options over stages.
TrafficBound::Rates TrafficBound::with_price(double weight, double price) const {
  double dense = HUGE_VAL, expert = HUGE_VAL;
  for (std::size_t k = 0; k < exchange_count_; ++k) {
    const Exchange& exchange = exchanges_[k];
    struct Part {
      double dense, expert, hides;
    };
    Part parts[2] = {{weight * exchange.each_dense, weight * exchange.each_expert, weight * exchange.each_hides},
                     {exchange.once_dense, exchange.once_expert, exchange.once_hides}};
    const auto size = [&](const Part& part) { return part.dense * dense_ + part.expert * expert_; };
    if (size(parts[1]) * parts[0].hides > size(parts[0]) * parts[1].hides) std::swap(parts[0], parts[1]);
    double left = price, in_dense = exchange.step_dense, in_expert = exchange.step_expert;
    for (const Part& part : parts) {
      const double share = part.hides <= left ? 1 : left / part.hides;
      left -= share * part.hides;
      const double counted = share + (1 - share) * least_exposed_;
      in_dense += counted * part.dense;
      in_expert += counted * part.expert;
    }
    dense = std::min(dense, in_dense);
    expert = std::min(expert, in_expert);
  }
  if (exchange_count_ == 0) return {0, 0};
  return {dense, expert};
}

namespace {

std::array<double, 8> prices(double weight) { return {0, 1, 2, 3, weight, weight + 1, 2 * weight, 2 * weight + 1}; }

// Each exchange of a stage was rounded down several times; the doubles carry a relative error far below 1e-9.
std::int64_t safely(double value, double weight) {
  value = value * (1 - 1e-9) - 8 * (weight + 1) - 16;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::min(std::floor(value), 4e18)));
}

}  // namespace

std::int64_t TrafficBound::average(double weight, std::int64_t stages) const {
  double best = 0;
  for (double price : prices(weight)) {
    const Rates rates = with_price(weight, price);
    best = std::max(best, rates.dense * dense_ + rates.expert * expert_ - price * hide_);
  }
  return safely(best / static_cast<double>(stages), weight);
}

std::int64_t TrafficBound::peak(double weight, std::int64_t stages, const Peaks& peaks, std::int64_t slowest_ps) const {
  const auto dense = static_cast<double>(peaks.dense[static_cast<std::size_t>(stages)]);
  const auto expert = static_cast<double>(peaks.expert[static_cast<std::size_t>(stages)]);
  const double hide = std::min(hide_, hide_share_ * static_cast<double>(slowest_ps));
  double best = 0;
  for (double price : prices(weight)) {
    const Rates rates = with_price(weight, price);
    best = std::max(best, std::max(rates.dense * dense, rates.expert * expert) - price * hide);
  }
  return safely(best, weight);
}

IterationBound iteration_bound(const ChainBound& chain, const TrafficBound& traffic, std::int64_t stages,
                               std::int64_t micro_batches, std::int64_t fill, const Peaks* peaks,
                               std::int64_t limit_ps) {
  const auto p = static_cast<double>(stages), v = static_cast<double>(fill);
  IterationBound bound;
  bound.per_iteration_ps = traffic.average(0, stages);
  bound.joint_ps = std::max(bound.per_iteration_ps, traffic.average(p / v, stages));
  if (peaks != nullptr) {
    bound.joint_ps = std::max(bound.joint_ps, traffic.peak(1 / v, stages, *peaks, limit_ps / micro_batches));
  }
  const std::int64_t by_chain =
      micro_batches * chain.slowest_ps + (chain.sum_ps - chain.slowest_ps) / fill + bound.joint_ps;
  const std::int64_t level = floor_div(static_cast<Int128>(micro_batches * fill - 1 + stages) * chain.sum_ps,
                                       static_cast<Int128>(stages) * fill) -
                             1;
  const double both = static_cast<double>(micro_batches) - 1 / v + p / v;
  bound.time_ps = std::max(by_chain, level + traffic.average(both, stages));
  return bound;
}

HopExcess hop_excess(const Priced& priced, const BoxClass& box, const PlacementClass& placed, std::int64_t stages,
                     std::int64_t chunks) {
  HopExcess excess;
  if (stages < 2) return excess;
  const std::int64_t base = box.hop.at(priced.least_cut_bytes);
  const auto over = [&](const Line& line) {
    return chunks * std::max<std::int64_t>(0, line.at(priced.least_cut_bytes) - base - 1);
  };
  const std::int64_t wrap_bytes = priced.table().wrap_bytes;
  const std::int64_t wrap = (chunks - 1) * (placed.wrap.at(wrap_bytes) - box.wrap.at(wrap_bytes));
  excess.least_ps = kForever;
  for (std::int64_t s = 0; s < stages; ++s) {
    std::int64_t here = s == 0 || s + 1 == stages ? wrap : 0;
    if (s > 0) here += over(placed.hop[static_cast<std::size_t>(s - 1)]);
    if (s + 1 < stages) here += over(placed.hop[static_cast<std::size_t>(s)]);
    excess.least_ps = std::min(excess.least_ps, here);
    excess.sum_ps += here;
  }
  return excess;
}

std::int64_t raise(std::int64_t relaxed, const HopExcess& excess, std::int64_t extra, std::int64_t micro_batches,
                   std::int64_t chunks) {
  const std::int64_t more_sum = std::max<std::int64_t>(0, excess.sum_ps - extra);
  const Int128 more = static_cast<Int128>(micro_batches * chunks - 1) * excess.least_ps + more_sum;
  return std::max(relaxed, relaxed + floor_div(more, chunks) - (chunks > 1 ? 1 : 0));
}

}  // namespace nest::search
