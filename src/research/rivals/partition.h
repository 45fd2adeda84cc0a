// Where to cut the chain of layers and what every stage recomputes and shards, for a 1F1B pipeline of which everything
// else is given: the outer problem of planners that tune stages first and join them afterwards. Solved exactly, by the
// solver of the search (search/partition.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/key_prices.h"
#include "search/pair_prices.h"
#include "search/partition.h"
#include "search/space.h"

namespace nest::rivals {

struct Partition {
  double time_s = 0;
  std::vector<StagePlan> stages;
};

class ChainPartition {
 public:
  // `messages_count`: messages between stages are part of their time.
  ChainPartition(const search::PlanSpace& space, search::PriceCache& prices, bool messages_count = true);

  // Positions where the chain may be cut; all unless told.
  void cut_only_at(const std::vector<std::int64_t>& positions);

  // No partition of the strategy takes less.
  double bound_s(const Strategy& strategy);
  // The best one, if it takes less than `limit_s`. The strategy is one of the space, with one chunk per stage.
  std::optional<Partition> solve(const Strategy& strategy, double limit_s);

 private:
  const search::PlanSpace* space_;
  search::PriceCache* prices_;
  std::vector<char> may_cut_;
  search::KeyPrices key_prices_;
  search::PartitionSolver solver_;
};

}  // namespace nest::rivals
