// Points of the planner's own space, for rivals that walk through it: a key (search/key.h), where the chain is cut,
// and what every stage does about memory. Priced from prefix sums, in microseconds; the value is evaluate()'s.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "search/best_first.h"
#include "search/placement.h"
#include "search/space.h"

namespace nest::rivals {

struct Configuration {
  search::Key key;
  std::vector<std::int64_t> cuts;  // 0 = cuts[0] < … < cuts[p] = layers
  std::vector<int> options;        // indices into PlanSpace::choices

  bool operator==(const Configuration&) const = default;
};

struct StagePrice {
  double time_s = 0;      // of one micro-batch, everything
  double traffic_s = 0;   // exposed communication of that
  double per_step_s = 0;  // gradient exchange, optimizer, overhead
  double fullness = 0;    // memory needed over memory there; fits up to 1
};

struct ConfigurationPrice {
  double time_s = 0;  // of one step
  double fullness = 0;
  std::vector<StagePrice> stages;

  bool fits() const { return fullness <= 1; }
};

// Remembers what the network charges a placement and what stages keep in memory. One per thread.
class ConfigurationPricer {
 public:
  ConfigurationPricer(const search::PlanSpace& space, search::PriceCache& prices)
      : space_(&space),
        prices_(&prices),
        rules_{cost::sync_rule(space.job(), 1), cost::sync_rule(space.job(), 2)},
        placements_(space) {}

  const ConfigurationPrice& price(const Configuration& configuration);  // until the next call
  std::int64_t priced() const { return priced_; }
  const search::PairPrices& pair(const search::Key& key);

 private:
  double fullness(const search::PairPrices& pair, const Strategy& strategy, const Configuration& configuration,
                  std::size_t stage, std::int64_t degree);

  const search::PlanSpace* space_;
  search::PriceCache* prices_;
  std::array<cost::SyncRule, 2> rules_;  // without a pipeline, and with one
  search::PlacementPrices placements_;
  std::map<std::pair<int, int>, std::shared_ptr<const search::PairPrices>> pairs_;
  // What memory depends on: split, micro-batch, stages, replicas, sharding degree inside a node, schedule; then layers,
  // option and stage.
  using Context = std::array<std::int64_t, 6>;
  std::map<Context, std::unordered_map<std::uint64_t, double>> fullness_;
  std::size_t known_ = 0;
  ConfigurationPrice price_;
  std::int64_t priced_ = 0;
};

// Options that a placement admits.
std::vector<int> admitted_options(const search::PlanSpace& space, const Strategy& strategy);

// Stages of about equal time; nothing when the chain cannot be cut so often.
std::optional<std::vector<std::int64_t>> balanced_cuts(const search::PlanSpace& space, const search::PairPrices& pair,
                                                       const search::Key& key);

// Whether the boundary before `stage` (1 … p - 1) may move by one layer (one motif where chunks interleave), to the
// left or to the right; moves it when it may.
bool move_cut(const search::PlanSpace& space, Configuration& configuration, std::int64_t stage, int direction);

// The most replicas that the devices and the batch admit, of those with equally many micro-batches the fewest.
std::optional<std::int64_t> most_admitted_replicas(const search::PlanSpace& space, const search::Key& key);

std::vector<StagePlan> stages_of(const search::PlanSpace& space, const Configuration& configuration);

}  // namespace nest::rivals
