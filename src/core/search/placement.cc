#include "search/placement.h"

namespace nest::search {
namespace {

constexpr std::size_t kMostKnown = 50'000;

}  // namespace

PlacementPrices::Name PlacementPrices::name_of(const Key& key) {
  return {key.split, key.stages, key.replicas, key.inner_replicas, key.pitch};
}

const cost::MessageLines& PlacementPrices::messages(const Key& key) {
  if (messages_.size() > kMostKnown) messages_.clear();
  const auto [place, fresh] = messages_.try_emplace(name_of(key));
  if (fresh && key.stages > 1) {
    place->second = cost::message_lines(space_->job().cluster, space_->strategy(key), space_->job().law);
  }
  return place->second;
}

const SyncPrices& PlacementPrices::sync(const Key& key, const cost::PriceTable& table) {
  if (sync_.size() > kMostKnown) sync_.clear();
  const auto [place, fresh] = sync_.try_emplace(name_of(key));
  SyncPrices& sync = place->second;
  if (!fresh) return sync;
  const Strategy strategy = space_->strategy(key);
  const std::optional<std::int64_t> inner = space_->node_degree(strategy);
  sync.has_inner = inner.has_value();
  sync.degrees[1] = inner.value_or(0);
  const cost::SyncRule rule = cost::sync_rule(space_->job(), strategy.pp);
  for (int group = 0; group < (sync.has_inner ? 2 : 1); ++group) {
    const cost::ShardGroups groups =
        cost::shard_groups(space_->job().cluster, strategy, sync.degrees[group], space_->job().law);
    if (space_->job().law == schedule::Law::least) {
      sync.loads[group] = cost::state_load(space_->job().cluster, strategy, groups);
    }
    for (int whole = 0; whole < 2; ++whole) {
      sync.lines[group][whole] = cost::sync_lines(space_->job(), rule, table, whole == 1 ? 3 : 1, groups);
    }
  }
  return sync;
}

}  // namespace nest::search
