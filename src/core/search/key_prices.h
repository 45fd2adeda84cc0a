// A key's partition problem: what its stages cost and need, from the cost model.
//
// Times and memory of a stage are those of cost/tables.h and cost/memory.h themselves, so that the value of a partition
// is evaluate()'s. Everything is asked per stage; as long as a key has one split and one kind of device, all stages
// share prefix sums and names.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/index.h"
#include "cost/group_time.h"
#include "cost/memory.h"
#include "cost/tables.h"
#include "search/memory_floor.h"
#include "search/message_floor.h"
#include "search/pair_prices.h"
#include "search/partition.h"
#include "search/placement.h"
#include "search/space.h"
#include "search/traffic_floor.h"

namespace nest::search {

// One per thread.
class KeyPrices final : public StagePrices {
 public:
  // `messages_count`: what stages send each other is part of their time; planners that leave it out exist.
  explicit KeyPrices(const PlanSpace& space, bool messages_count = true)
      : space_(&space),
        messages_count_(messages_count),
        rule_(cost::sync_rule(space.job())),
        placements_(space),
        floor_(space.job(), space.limits()),
        message_floor_(space.job().cluster) {}

  // What the stages of a key wait at least, whatever its replicas; what is exposed of it.
  LeastWaiting least_waiting(const Key& key, const PairPrices& pair) const;

  // A bound on T of every plan of a key by its messages: no cuts, no options.
  double message_bound_s(const Key& key, const PairPrices& pair);

  // Chooses the key that everything below is about, and bounds T of all its plans. `pair` outlives its use.
  double begin(const Key& key, const PairPrices& pair);

  // The key's problem; callers may narrow where it may be cut.
  PartitionProblem& problem();

  void price_options(std::int64_t stage, std::int64_t begin, std::int64_t end,
                     std::vector<OptionPrice>& prices) override;
  bool fits(std::int64_t stage, std::int64_t begin, std::int64_t end, int option) const override;

  const MemoryFloor& memory_floor() const { return floor_; }

 private:
  // All that the memory of given layers and options depends on besides what is in flight: split, micro-batch, stages,
  // replicas, sharding degree inside a node.
  using MemoryContext = std::array<std::int64_t, 5>;
  using KnownFits = std::unordered_map<int, std::vector<FitRange>>;  // by name of the layers, then by option

  double exposed_share(std::int64_t chunks) const;  // of messages
  // Of the passes of a stage that recomputes nothing: it pairs as many as any stage.
  double alone_share(const Key& key, const Strategy& strategy) const {
    return cost::alone_share(space_->job(), strategy, real(space_->micro_batch_count(key)), Recompute::none);
  }

  // A key has one split and one kind of device; what is priced asks per stage.
  const PairPrices& pair(std::int64_t /*stage*/) const { return *pair_; }
  const cluster::Device& device(std::int64_t /*stage*/) const { return space_->job().cluster.device; }

  const PlanSpace* space_;
  bool messages_count_;
  cost::SyncRule rule_;
  PlacementPrices placements_;
  MemoryFloor floor_;
  MessageFloor message_floor_;

  Key key_;
  const PairPrices* pair_ = nullptr;
  Strategy strategy_;
  const SyncPrices* sync_ = nullptr;
  const Messages* messages_ = nullptr;
  double alone_share_ = 0;
  std::vector<double> prefix_;  // of layers, with what runs alone
  std::int64_t context_bytes_ = 0;
  PartitionProblem problem_;
  std::map<MemoryContext, KnownFits> known_fits_;
  KnownFits* fits_ = nullptr;
  std::size_t known_names_ = 0;
};

}  // namespace nest::search
