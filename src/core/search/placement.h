// What the network charges a placement, remembered: keys that differ in micro-batch or schedule only share it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "cost/link_load.h"
#include "cost/messages.h"
#include "cost/tables.h"
#include "search/space.h"

namespace nest::search {

struct SyncPrices {
  cost::ShardLines lines[2][2];      // [all replicas, inside a node][ZeRO 0 to 2, ZeRO 3]
  cost::StateLoad loads[2];          // of the same groups, by the least law
  std::int64_t degrees[2] = {0, 0};  // as StagePlan::zero_degree; 0: all
  bool has_inner = false;

  const cost::ShardLines& of(const StageChoice& choice) const {
    return lines[choice.in_node ? 1 : 0][choice.zero == 3 ? 1 : 0];
  }
};

// One per thread. References stay valid until the next call.
class PlacementPrices {
 public:
  explicit PlacementPrices(const PlanSpace& space) : space_(&space) {}

  const cost::MessageLines& messages(const Key& key);
  // `table` is that of the key's split; its parameters do not depend on the micro-batch.
  const SyncPrices& sync(const Key& key, const cost::PriceTable& table);

 private:
  using Name = std::array<std::int64_t, 5>;
  static Name name_of(const Key& key);

  const PlanSpace* space_;
  std::map<Name, cost::MessageLines> messages_;
  std::map<Name, SyncPrices> sync_;
};

}  // namespace nest::search
