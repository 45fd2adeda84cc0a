// A key's partition problem: what its stages cost and need, from the cost model.
//
// Times and memory of a stage are those of cost/tables.h and cost/memory.h themselves, so that the value of a partition
// is evaluate()'s. Everything is asked per stage; as long as a key has one split and one kind of device, all stages
// share prefix sums and names.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/index.h"
#include "cost/group_time.h"
#include "cost/memory.h"
#include "cost/messages.h"
#include "cost/tables.h"
#include "schedule/filled.h"
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
        rules_{cost::sync_rule(space.job(), 1), cost::sync_rule(space.job(), 2)},
        placements_(space),
        floor_(space.job(), space.limits()),
        message_floor_(space.job().cluster) {
    for (const StageChoice& sharding : space.shardings()) {
      back_share_of_state_ = std::min(back_share_of_state_, cost::least_back_share(rules_[1].traffic(sharding.row())));
    }
  }

  // How its stages make up a step, whatever the cuts.
  schedule::StepForm form(const Key& key, const PairPrices& pair) const;

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
  // The next blocks that may be recomputed as a whole: every number of them is an option that is looked at only where
  // fewer do not fit. Likewise one input of several layers where one of each does not.
  bool extend(std::int64_t stage, std::int64_t begin, std::int64_t end, int option) override;
  bool restrict_to(int option, double limit_s) override;

  const MemoryFloor& memory_floor() const { return floor_; }

 private:
  // All that the memory of given layers and options depends on besides what is in flight: split, micro-batch, stages,
  // replicas, sharding degree inside a node, whether the chain is folded, chunks where each has buffers of its own.
  using MemoryContext = std::array<std::int64_t, 7>;
  using PlainFits = std::vector<FitRange>;  // by offered recomputation and sharding
  struct BlockFits {
    std::vector<std::deque<FitRange>> numbers;  // by sharding, then n - 1; growing does not move them
    std::vector<char> groups;                   // by sharding: inputs of several layers are worth a look
  };
  // By name of the layers. How many blocks n stands for depends on the chunks of a stage.
  using KnownFits = std::unordered_map<int, PlainFits>;
  using KnownBlocks = std::unordered_map<int, BlockFits>;

  PlainFits& fits_of(std::int64_t begin, std::int64_t end);
  BlockFits& blocks_of(std::int64_t begin, std::int64_t end);
  bool within_floor(std::int64_t stage, std::int64_t begin, std::int64_t end, const StageChoice& choice) const;
  MemoryFloor::Sharded floor_of(const StageChoice& choice) const;  // of the state
  bool within_floor(std::int64_t stage, std::int64_t begin, std::int64_t end, const MemoryFloor::Sharded& state,
                    const cost::StageTreatment& treatment) const;
  // Stages that are all treated so, their state sharded alike.
  bool reaches_end(const MemoryFloor::Sharded& state, const cost::StageTreatment& treatment) const;
  bool reaches_end(int option);   // the same, remembered
  void settle_reach(int option);  // and of all options that follow
  bool is_treated(int option);    // by what runs plans of the key; remembered
  cost::StageTreatment treatment(const Recomputation& recompute) const {
    return cost::stage_treatment(pair_->treatments(), recompute, strategy_.virtual_stages);
  }

  // Some layers of a stage may be recomputed as a whole: where none has anything on the host.
  bool offers_blocks() const { return space_->offers_blocks() && strategy_.split.offload == 0; }

  // The most n of `block:n` worth a look on a stage of so many blocks: the least that covers all of them and that limits
  // which name single numbers admit.
  std::int64_t most_whole(std::int64_t blocks) const;

  // What is waited for of messages, where they count.
  cost::MessageRule message_rule(const Strategy& strategy, const PairPrices& pair) const {
    return {space_->job(), strategy, pair.mean_stage(strategy.pp).forward_s};
  }
  bool overlaps(const Key& key) const;  // messages, with compute
  // By the least law: what is known of a placement's messages.
  void follow_messages(const cost::MessageRule& rule, const cost::MessageLines& messages, const PairPrices& pair,
                       schedule::StepForm& form) const;
  // Whether head gradients may be computed at once, and may wait for the drain.
  std::array<bool, 2> deferrals(const cost::StageSums& sums) const;
  void choose_uplink();  // by the least law
  // By the least law: what the busiest uplink works in a step, whatever the cuts and options.
  double busiest_link_s(const Key& key, const PairPrices& pair);
  // Of the passes of a stage that recomputes nothing: it pairs as many as any stage.
  double alone_share(const Key& key, const Strategy& strategy) const {
    return cost::alone_share(space_->job(), strategy, real(space_->micro_batch_count(key)), Recompute::none);
  }

  // A key has one split and one kind of device; what is priced asks per stage.
  const PairPrices& pair(std::int64_t /*stage*/) const { return *pair_; }
  const cluster::Device& device(std::int64_t /*stage*/) const { return space_->job().cluster.device; }

  const PlanSpace* space_;
  bool messages_count_;
  const cost::SyncRule& rule() const { return rules_[strategy_.pp > 1 ? 1 : 0]; }
  std::array<cost::SyncRule, 2> rules_;  // without a pipeline, and with one
  PlacementPrices placements_;
  MemoryFloor floor_;
  MessageFloor message_floor_;

  mutable schedule::FilledShares filled_;

  Key key_;
  const PairPrices* pair_ = nullptr;
  Strategy strategy_;
  const SyncPrices* sync_ = nullptr;
  const cost::MessageLines* messages_ = nullptr;
  double back_share_of_state_ = 1;  // of whatever a stage may exchange in a micro-batch
  double alone_share_ = 0;
  // Of this level, through which gradients of StepForm::together stages leave; 0: of one stage alone.
  std::size_t uplink_ = 0;
  struct Offers {
    std::vector<int> recomputations;  // of the space's, without sets of modules that another of them replaces
    // By recomputation: bit j is set where it keeps no more of any layer than j does, and needs no more besides.
    std::vector<std::uint64_t> spares;
    bool inputs_are_least = false;  // of what may be kept of any layer, where parts of it are recomputed
  };
  Offers list_offers(const Key& key) const;
  std::map<std::pair<int, int>, Offers> known_offers_;  // by split and micro-batch
  const Offers* offers_ = nullptr;                      // of the key
  std::optional<int> only_;                             // of uniform plans: the option looked at
  std::vector<double> prefix_;                          // of layers, with what runs alone
  std::int64_t context_bytes_ = 0;
  PartitionProblem problem_;
  double least_pressure_ = 0;  // of its stages
  std::map<MemoryContext, KnownFits> known_fits_;
  std::map<std::pair<MemoryContext, std::int64_t>, KnownBlocks> known_blocks_;  // with chunks
  // Of uniform problems, by option: keys that differ in where their replicas stand share what memory says, and keys are
  // solved several times. Of memory also, behind the options, by sharding: whether what keeps the least has room.
  enum class Verdict : std::uint8_t { unknown, no, yes };
  using Verdicts = std::vector<Verdict>;
  using FlightContext = std::array<std::int64_t, 3>;  // all else that counts: schedule, chunks, context_bytes_
  std::map<std::pair<MemoryContext, FlightContext>, Verdicts> known_reach_;
  std::map<Key, Verdicts> known_treated_;
  Verdicts* reach_ = nullptr;
  Verdicts* treated_ = nullptr;
  KnownFits* fits_ = nullptr;
  KnownBlocks* blocks_ = nullptr;
  std::size_t known_fits_count_ = 0;
  std::vector<cost::StateCost> states_;  // by sharding, of the layers being priced
};

}  // namespace nest::search
