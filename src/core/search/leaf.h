// The best plan of one key, exactly: where to cut the chain and what every stage recomputes and shards.
#pragma once

#include <cstdint>
#include <optional>

#include "search/key_prices.h"
#include "search/partition.h"

namespace nest::search {

// Working memory of one thread.
class LeafSolver {
 public:
  // Solving looks at the deadline, and throws Interrupted. It may be null.
  explicit LeafSolver(const PlanSpace& space, const Deadline* deadline = nullptr) : prices_(space), solver_(deadline) {}

  // The optimum if it is <= limit; options are indices into PlanSpace::choices.
  std::optional<PartitionPlan> solve(const Key& key, const PairPrices& pair, double limit_s) {
    low_s_ = prices_.begin(key, pair);
    if (low_s_ > limit_s * (1 + PartitionSolver::kEqual)) return std::nullopt;
    return solver_.solve(prices_.problem(), prices_, limit_s);
  }

  // What stages wait at least, whatever the replicas of a key.
  LeastWaiting least_waiting(const Key& key, const PairPrices& pair) const { return prices_.least_waiting(key, pair); }

  schedule::StepForm form(const Key& key, const PairPrices& pair) const { return prices_.form(key, pair); }

  // Bounds on T of every plan of a key: by its messages alone, and of the key that was solved last.
  double message_bound_s(const Key& key, const PairPrices& pair) { return prices_.message_bound_s(key, pair); }
  double low_s() const { return low_s_; }

  const MemoryFloor& memory_floor() const { return prices_.memory_floor(); }
  std::int64_t passes() const { return solver_.passes(); }

 private:
  KeyPrices prices_;
  PartitionSolver solver_;
  double low_s_ = 0;
};

}  // namespace nest::search
