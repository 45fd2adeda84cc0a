#include "rivals/configuration.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "cost/constants.h"
#include "schedule/step_time.h"

namespace nest::rivals {
namespace {

constexpr std::size_t kMostKnown = 2'000'000;

}  // namespace

const search::PairPrices& ConfigurationPricer::pair(const search::Key& key) {
  std::shared_ptr<const search::PairPrices>& known = pairs_[{key.split, key.micro_batch}];
  if (known == nullptr) {
    known = prices_->get(space_->splits()[at(key.split)], space_->micro_batches()[at(key.micro_batch)]);
  }
  return *known;
}

double ConfigurationPricer::fullness(const search::PairPrices& pair, const Strategy& strategy,
                                     const Configuration& configuration, std::size_t stage, std::int64_t degree) {
  const search::Key& key = configuration.key;
  if (known_ > kMostKnown) {
    fullness_.clear();
    known_ = 0;
  }
  const std::int64_t begin = configuration.cuts[stage], end = configuration.cuts[stage + 1];
  const auto layers = static_cast<std::uint64_t>(space_->interval(begin, end));
  const auto option = static_cast<std::uint64_t>(configuration.options[stage]);
  const std::uint64_t name = (layers * space_->choices().size() + option) << 20U | stage;
  auto& known = fullness_[{key.split, key.micro_batch, key.stages, key.replicas, degree, key.schedule}];
  const auto [place, fresh] = known.try_emplace(name, 0);
  if (!fresh) return place->second;
  ++known_;
  const StagePlan plan = search::stage_of(begin, end, space_->choices()[option], degree);
  const auto needed = real(pair.memory().estimate(strategy, plan, static_cast<std::int64_t>(stage)).needed);
  return place->second = needed / real(space_->job().cluster.device.memory_bytes);
}

const ConfigurationPrice& ConfigurationPricer::price(const Configuration& configuration) {
  ++priced_;
  const cost::Job& job = space_->job();
  const search::Key& key = configuration.key;
  const search::PairPrices& prices = pair(key);
  const Strategy strategy = space_->strategy(key);
  const search::SyncPrices& sync = placements_.sync(key, prices.table());
  const cost::MessageLines& messages = placements_.messages(key);
  const std::int64_t p = key.stages;
  const auto m = real(space_->micro_batch_count(key));
  const auto v = real(strategy.virtual_stages);
  const cost::MessageRule rule(job, strategy, prices.mean_stage(p).forward_s);
  const double wrap_s = p > 1 && v > 1 ? (v - 1) * rule.exposed_s(messages.wrap.at(prices.table().wrap_bytes)) : 0;
  double arrives_s = 0, slowest_s = 0, sum_s = 0, last_s = 0;
  price_.fullness = 0;
  price_.stages.resize(at(p));
  for (std::int64_t s = 0; s < p; ++s) {
    const std::int64_t begin = configuration.cuts[at(s)], end = configuration.cuts[at(s + 1)];
    const search::StageChoice& choice = space_->choices()[at(configuration.options[at(s)])];
    const cost::StageSums sums = prices.sums(begin, end, p > 1);
    const double again_s = prices.again_s(
        begin, end, cost::stage_treatment(prices.treatments(), choice.recompute, strategy.virtual_stages));
    const cost::StageCost cost = cost::stage_cost(job, rules_[strategy.pp > 1 ? 1 : 0], strategy, sums, sync.of(choice),
                                                  choice.row(), {again_s, again_s});
    const double leaves_s =
        s + 1 < p ? v * rule.exposed_s(messages.hops[at(s)].at(prices.table().cut_bytes[at(end - 1)])) : 0;
    const double messages_s = arrives_s + leaves_s + (s == 0 || s + 1 == p ? wrap_s : 0);
    arrives_s = leaves_s;
    StagePrice& stage = price_.stages[at(s)];
    stage.time_s = sums.forward_s + sums.backward_s + again_s + cost.head.micro_s + cost.micro_exposed_s + messages_s;
    stage.traffic_s = sums.tp_s + sums.cp_s + sums.ep_s + cost.micro_exposed_s + messages_s;
    stage.per_step_s = cost.sync_exposed_s + cost.optimizer_s + cost.head.step_s + cost::constants::kStep_s;
    stage.fullness = fullness(prices, strategy, configuration, at(s), sync.degrees[1]);
    slowest_s = std::max(slowest_s, stage.time_s);
    sum_s += stage.time_s;
    last_s = std::max(last_s, stage.per_step_s);
    price_.fullness = std::max(price_.fullness, stage.fullness);
  }
  price_.time_s = schedule::step_time(m, v, slowest_s, sum_s, last_s);
  if (p > 1) price_.time_s += rule.fill_s(messages, prices.least_cut_bytes(), prices.table().wrap_bytes);
  return price_;
}

std::vector<int> admitted_options(const search::PlanSpace& space, const Strategy& strategy) {
  const bool inner = space.node_degree(strategy).has_value();
  std::vector<int> options;
  for (int option = 0; option < std::ssize(space.choices()); ++option) {
    if (inner || !space.choices()[at(option)].in_node) options.push_back(option);
  }
  return options;
}

std::optional<std::vector<std::int64_t>> balanced_cuts(const search::PlanSpace& space, const search::PairPrices& pair,
                                                       const search::Key& key) {
  const std::int64_t n = space.layers(), p = key.stages, chunks = space.schedule(key).chunks;
  const std::vector<double>& prefix = pair.prefix(p > 1);
  std::int64_t after = 0;
  for (std::int64_t s = 0; s < p; ++s) after += space.fewest_layers(s, p, chunks);
  std::vector<std::int64_t> cuts{0};
  for (std::int64_t s = 1; s < p; ++s) {
    const std::int64_t fewest = space.fewest_layers(s - 1, p, chunks);
    after -= fewest;
    // What is left, spread evenly over the stages that are left.
    const double target = prefix[at(cuts.back())] + (prefix.back() - prefix[at(cuts.back())]) / real(p - s + 1);
    std::int64_t best = -1;
    for (std::int64_t i = cuts.back() + fewest; i <= n - after; ++i) {
      if (!space.may_cut(i, chunks)) continue;
      if (best < 0 || std::abs(prefix[at(i)] - target) < std::abs(prefix[at(best)] - target)) best = i;
      if (prefix[at(i)] > target) break;
    }
    if (best < 0) return std::nullopt;
    cuts.push_back(best);
  }
  cuts.push_back(n);
  if (n - cuts[at(p - 1)] < space.fewest_layers(p - 1, p, chunks)) return std::nullopt;
  return cuts;
}

bool move_cut(const search::PlanSpace& space, Configuration& configuration, std::int64_t stage, int direction) {
  const search::Key& key = configuration.key;
  const std::int64_t chunks = space.schedule(key).chunks;
  std::int64_t& cut = configuration.cuts[at(stage)];
  const std::int64_t before = configuration.cuts[at(stage - 1)], after = configuration.cuts[at(stage + 1)];
  const std::int64_t low = before + space.fewest_layers(stage - 1, key.stages, chunks);
  const std::int64_t high = after - space.fewest_layers(stage, key.stages, chunks);
  for (std::int64_t i = cut + direction; i >= low && i <= high; i += direction) {
    if (!space.may_cut(i, chunks)) continue;
    cut = i;
    return true;
  }
  return false;
}

std::optional<std::int64_t> most_admitted_replicas(const search::PlanSpace& space, const search::Key& key) {
  const std::optional<search::Plateau> plateau = space.plateau(key, space.most_replicas(key));
  return plateau ? space.next_replicas(key, *plateau) : std::nullopt;
}

std::vector<StagePlan> stages_of(const search::PlanSpace& space, const Configuration& configuration) {
  return space.stages(space.strategy(configuration.key), configuration.cuts, configuration.options);
}

}  // namespace nest::rivals
