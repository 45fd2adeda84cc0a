#include "search/placement.h"

namespace nest::search {
namespace {

constexpr std::size_t kMostKnown = 50'000;

}  // namespace

PlacementPrices::Name PlacementPrices::name_of(const Key& key) {
  return {key.split, key.stages, key.replicas, key.inner_replicas, key.pitch};
}

const Messages& PlacementPrices::messages(const Key& key) {
  if (messages_.size() > kMostKnown) messages_.clear();
  const auto [place, fresh] = messages_.try_emplace(name_of(key));
  Messages& messages = place->second;
  if (!fresh || key.stages < 2) return messages;
  const Strategy strategy = space_->strategy(key);
  const cluster::Cluster& cluster = space_->job().cluster;
  for (std::int64_t s = 0; s + 1 < key.stages; ++s) {
    messages.hops.push_back(cost::message_line(cluster, strategy, s, s + 1, space_->job().law));
  }
  messages.wrap = cost::message_line(cluster, strategy, key.stages - 1, 0, space_->job().law);
  return messages;
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
    for (int whole = 0; whole < 2; ++whole) {
      sync.lines[group][whole] = cost::sync_lines(space_->job(), rule, table, whole == 1 ? 3 : 1, groups);
    }
  }
  return sync;
}

}  // namespace nest::search
