#include "rivals/partition.h"

#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "cost/constants.h"
#include "rivals/settle.h"

namespace nest::rivals {

ChainPartition::ChainPartition(const search::PlanSpace& space, search::PriceCache& prices, bool messages_count)
    : space_(&space), prices_(&prices), may_cut_(at(space.layers() + 1), 1), key_prices_(space, messages_count) {}

void ChainPartition::cut_only_at(const std::vector<std::int64_t>& positions) {
  may_cut_.assign(may_cut_.size(), 0);
  for (const std::int64_t position : positions) may_cut_[at(position)] = 1;
}

double ChainPartition::bound_s(const Strategy& strategy) {
  NEST_CHECK(strategy.virtual_stages == 1, "stages of a partition are whole");
  const auto pair = prices_->get(strategy.split, strategy.micro_batch);
  const auto rounds = real(micro_batches(strategy, space_->job().run.global_batch) - 1);
  return (rounds * pair->slowest_s(strategy.pp) + pair->total_s(strategy.pp > 1) + cost::constants::kStep_s) *
         (1 - search::PartitionSolver::kEqual);
}

std::optional<Partition> ChainPartition::solve(const Strategy& strategy, double limit_s) {
  const auto pair = prices_->get(strategy.split, strategy.micro_batch);
  if (bound_s(strategy) >= limit_s) return std::nullopt;
  if (std::isinf(key_prices_.memory_floor().slowest_s(strategy, *pair, limit_s))) return std::nullopt;
  const std::optional<search::Key> key = key_of(*space_, strategy);
  NEST_CHECK(key.has_value(), "partitions are of strategies that the space has");
  if (key_prices_.begin(*key, *pair) > limit_s) return std::nullopt;
  search::PartitionProblem& problem = key_prices_.problem();
  problem.may_cut = may_cut_;
  const std::optional<search::PartitionPlan> plan = solver_.solve(problem, key_prices_, limit_s);
  if (!plan || plan->time_s >= limit_s) return std::nullopt;
  return Partition{plan->time_s, space_->stages(strategy, plan->cuts, plan->options)};
}

}  // namespace nest::rivals
