// Best-first search over keys, with exact plans at the leaves.
//
//   pair    a split and micro-batch size                 bound: all work spread evenly over all devices
//   stages  ... and a number of stages                   bound: the most replicas, the slowest stage of any cut
//   chain   ... and schedule, at most so many replicas   bound: the same with these micro-batches and chunks
//   family  ... and replicas                             bound: the same
//   key     ... and inner replicas and pitch             bound: with the messages of this placement; then the exact plan
// A node's bound holds for every plan below it and its children cover it, so when the best bound left exceeds the best
// plan found, that plan is optimal. Leaves are solved under a limit a little above their bound first, where few cuts
// are admissible, and return to the queue with the limit as their bound if they prove larger. Nodes are opened in
// rounds of a fixed size with the cutoff frozen, and merged in order: the answer is the same for any number of threads.
//
// A search that is stopped gives back the nodes that it was opening: the least of all bounds that are left holds for every
// plan there is. A ceiling drops nodes whose bound is above it: a bound on seconds holds for seconds, and times the fewest
// devices below the node for device-seconds; what is left is searched as ever, so that the best plan under the ceiling is
// found and proven too, or that there is none. Where a stopped search has no plan of its own by then, one that rules find is there (first_plan.h); the search itself
// does not depend on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "nest/search.h"
#include "plan/plan.h"
#include "search/leaf.h"
#include "search/so_far.h"
#include "search/space.h"

namespace nest::search {

// What counts as one plan where several are wanted: a key, or all keys of one kind (kind.h), of which the best is taken.
enum class Listing : std::uint8_t { keys, kinds };

// What a plan may take at most. A plan that takes just that is under it: sums in another order differ in their last digits.
struct PlanCeiling {
  static constexpr double kEdge = 1 + 1e-9;
  double step_s = std::numeric_limits<double>::infinity();
  double device_s = std::numeric_limits<double>::infinity();  // of a step: its seconds times the devices it spans

  bool holds(double seconds, std::int64_t devices) const {
    return seconds <= step_s * kEdge && seconds * static_cast<double>(devices) <= device_s * kEdge;
  }
  // Seconds that a plan on so many devices may take.
  double seconds_on(std::int64_t devices) const {
    return std::min(step_s, device_s / static_cast<double>(devices)) * kEdge;
  }
};

struct SearchSettings {
  PlanObjective objective = PlanObjective::time;
  int top = 1;
  Listing listing = Listing::keys;
  int threads = 1;  // 0: one per core
  double time_limit_s = std::numeric_limits<double>::infinity();
  std::int64_t most_opened = 0;  // nodes after which it ends, on any machine and for any threads alike; 0: none
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const PlanProgress&)> progress;
  std::function<void(const SoFar&)> so_far;                      // whoever wants the plan itself (so_far.h)
  double known_score = std::numeric_limits<double>::infinity();  // only plans that score less are wanted
  PlanCeiling ceiling;                                           // others are not wanted, whatever their score
  bool first = false;  // whoever stops it wants a plan all the same (first_plan.h)
  // Of the time limit, where rules find no plan: whoever asks has other questions then.
  double share_without_first = 1;
};

struct RankedPlan {
  double score = 0;
  Key key;
  PartitionPlan leaf;
};

struct SearchFindings {
  std::vector<RankedPlan> plans;  // best first
  std::optional<Plan> first;      // found by rules, where it was asked for and is needed
  bool complete = false;          // nothing is left that could be better
  double lower_bound = 0;         // of the score
  double keys = 0;
  std::int64_t opened = 0, leaves = 0, passes = 0;
  double wall_s = 0;
};

// The fewest devices whose memory holds weights, gradients and optimizer state, spread evenly and nothing else; 1 where
// that is not known (frozen weights, measured layers).
std::int64_t fewest_devices(const cost::Job& job);

// Of every plan on so many devices: all of them at the peak of their arithmetic.
double least_score(const cost::Job& job, std::int64_t devices, PlanObjective objective);

SearchFindings find_best(const PlanSpace& space, PriceCache& prices, const SearchSettings& options);

}  // namespace nest::search
