// What gradients and sharded weights cost at least, whatever the cuts and options.
#pragma once

#include <array>
#include <cstdint>

#include "cost/tables.h"
#include "planner/limits.h"
#include "planner/pair_prices.h"
#include "planner/placement.h"

namespace nest {

// A lower bound on (weight * sum of dt_s + sum of y_s) / p, dt_s what sharding adds to a micro-batch of stage s, over
// all cuts and options. Exposed traffic is at least traffic - hide and at least a fraction of the traffic, both linear
// in the parameters and in the time to hide behind, so stages can be added up whatever option each of them takes: with
// rates that no option undercuts, they cost rate * parameters - hide. Latencies, buckets and the optimizer are left
// out.
class TrafficFloor {
 public:
  TrafficFloor(const PlanLimits& limits, const SyncRule& rule, const PairPrices& pair, const SyncPrices& sync,
               const Strategy& strategy);

  double seconds(double weight) const;

 private:
  struct Rate {  // per parameter, dense and expert
    std::array<double, 2> each{}, once{};
  };
  const SyncRule* rule_;
  double dense_, expert_;
  double stages_;
  double hide_s_;
  std::array<Rate, 8> rates_;  // of the options
  std::size_t options_ = 0;
};

// Prices that no exchange between the replicas of a strategy undercuts, on trees; 0 where nothing is known (tori,
// clusters with measured collectives). A unit of U devices, in which at most k of a group's n members sit, sends at
// least (1 - k/n) of the bytes of every group there over its uplink of capacity C:
//     slope >= groups (1 - k/n) / C
// The groups of tp neighbours sit together; where the first unit is full of ranks, its groups are U / k at least. On
// rails the ports of all devices of a node share this. Sharding inside a node moves the same bytes between nodes in its
// second step.
enum class Placed : std::uint8_t {
  anywhere,  // any inner replicas and pitch
  as_given,  // those of the strategy
};
SyncPrices least_sync(const Cluster& cluster, const Strategy& strategy, bool shards_in_node, Placed placed);

}  // namespace nest
