// What gradients and sharded weights cost at least, whatever the cuts and options.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost/tables.h"
#include "search/choices.h"
#include "search/memory_floor.h"
#include "search/pair_prices.h"
#include "search/placement.h"

namespace nest::search {

// A lower bound on (weight * sum of dt_s + sum of y_s) / p, dt_s what sharding adds to a micro-batch of stage s, over
// all cuts and options. Exposed traffic is at least traffic - hide and at least a fraction of the traffic, both linear
// in the parameters and in the time to hide behind (with everything recomputed, that of a micro-batch), so stages can
// be added up whatever option each of them takes: with rates that no option undercuts, they cost
// rate * parameters - hide. Every stage that has parameters pays latencies besides, and no stage hides more of its last
// bucket than one that holds the whole model; the optimizer passes over its part of the state. Latencies of the experts'
// groups are left out.
//
// Under some options a stage has room for Q parameters or fewer. Where p Q do not make up the model, at least one stage
// has another option, and those that have none hold (p - 1) Q at most: the rest is exchanged at the rates of others.
class TrafficFloor {
 public:
  // `most`: degrees over which the state of all replicas is divided at most; those of `sync` where it is exact.
  TrafficFloor(const std::vector<StageChoice>& shardings, const cost::SyncRule& rule, const PairPrices& pair,
               const SyncPrices& sync, const Strategy& strategy, const groups::ZeroDegrees& most,
               const MemoryFloor& memory);

  double seconds(double weight) const;

 private:
  struct Rate {  // per parameter, dense and expert; and of each stage
    std::array<double, 2> each{}, once{};
    double each_latency_s = 0, once_latency_s = 0;
    double exposed = 0;                 // share of what happens once per step
    std::array<double, 2> optimizer{};  // seconds per parameter
    double most = 0;                    // parameters of a stage that there is room for
  };
  // Parameters that are not held under options with room for `most` parameters or fewer.
  struct Displaced {
    double most, parameters;
  };
  const cost::SyncRule* rule_;
  double dense_, expert_;
  double stages_;
  bool all_exchange_;             // every stage has parameters
  double hide_s_, micro_hide_s_;  // of all stages
  std::array<Rate, 9> rates_;     // of the options
  std::size_t options_ = 0;
  std::array<Displaced, 9> displaced_;
  std::size_t displacements_ = 0;
};

// Prices that no exchange between the replicas of a strategy undercuts, on trees; 0 where nothing is known (tori,
// clusters with measured collectives). A unit of U devices, in which at most k of a group's n members sit, sends at
// least (1 - k/n) of the bytes of every group there over its uplink of capacity C:
//     slope >= groups (1 - k/n) / C
// A ring takes n - 1 steps, each of the latency of the first level that its members must cross at least (0 where other
// algorithms are allowed). The groups of tp neighbours (of experts' weights, of etp ep if these are fewer) sit together;
// where the first unit is full of ranks, its groups are U / k at least. On rails the ports of all devices of a node
// share this. Sharding inside a node moves the same bytes between nodes in its second step. `node_degree`: ranks that
// do so; without, there are none. Latencies of the experts' groups are those of every call of theirs: a stage without
// experts has none.
enum class Placed : std::uint8_t {
  anywhere,  // any inner replicas and pitch
  as_given,  // those of the strategy
};
constexpr std::int64_t kAnyDegree = 0;  // any that fits into a node
SyncPrices least_sync(const cluster::Cluster& cluster, const Strategy& strategy,
                      std::optional<std::int64_t> node_degree, Placed placed);

}  // namespace nest::search
