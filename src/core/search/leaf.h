// The best plan of one key, exactly: where to cut the chain and what every stage recomputes and shards.
//
//     T = m tau + (S - tau) / v + Y,   tau = max t_s,  S = sum t_s,  Y = max y_s
//
// Times and memory of a stage are those of cost/tables.h and cost/memory.h themselves, so the value is evaluate()'s.
// A dynamic program over (stage, boundary) finds the least S under a cap on every t_s and on every y_s. Lowering the
// caps finds the optimum:
//   - with S_k least under the cap h_k and tau_k the largest time of that plan, a plan with tau in [tau_k, h_k] has a
//     sum >= S_k and is no better; one with a smaller tau is better only if m tau + (S_k - tau) / v < R, R the least
//     m tau + (S - tau) / v so far: the next cap;
//   - when no cap is left, every plan whose y stay below theta costs at least R + Y, so only Y < best - R can improve:
//     the next theta, which is below the Y of the plan that attained R.
// Both sequences fall strictly, through finitely many values.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cost/group_time.h"
#include "cost/memory.h"
#include "cost/tables.h"
#include "search/memory_floor.h"
#include "search/pair_prices.h"
#include "search/placement.h"
#include "search/space.h"
#include "search/traffic_floor.h"

namespace nest {

struct LeafPlan {
  double time_s = 0;
  std::vector<std::int64_t> cuts;  // 0 = cuts[0] < … < cuts[p] = n
  std::vector<int> options;        // codes of StageOption
};

// Working memory of one thread.
class LeafSolver {
 public:
  explicit LeafSolver(const PlanSpace& space)
      : space_(&space), rule_(sync_rule(space.job())), placements_(space), floor_(space.job(), space.limits()) {}

  // A bound on T of every plan of a key by its messages: no cuts, no options.
  double message_bound_s(const Key& key, const PairPrices& pair);

  // The optimum if it is <= limit.
  std::optional<LeafPlan> solve(const Key& key, const PairPrices& pair, double limit_s);

  const MemoryFloor& memory_floor() const { return floor_; }

  // A bound on T of every plan of the key that was solved last.
  double low_s() const { return low_s_; }

  // Sharding degree that an option stands for: 0 is the whole group.
  static std::int64_t degree_of(const PlanSpace& space, const Strategy& strategy, const StageOption& option);

  std::int64_t passes() const { return passes_; }

 private:
  // Micro-batches in flight that are known to fit and not to fit; memory does not fall as they grow.
  struct Fit {
    double most = -1, least_not = 1e300;
  };
  struct Option {
    double time_s, per_step_s;  // time: in excess of layers and messages
    int code;
    Fit* fit;
  };
  // All that the memory of given layers and options depends on besides what is in flight: split, micro-batch, stages,
  // replicas, sharding degree inside a node.
  using MemoryContext = std::array<std::int64_t, 5>;
  struct Interval {
    std::uint64_t epoch = 0;
    std::uint32_t begin = 0, count = 0;
  };
  struct Cell {
    double sum_s;
    std::int32_t from, option;
  };
  struct Found {
    double slowest_s, sum_s, per_step_s;
  };

  void look_at(const Key& key, const PairPrices& pair);
  void start(const Key& key);
  Interval& interval(std::int64_t begin, std::int64_t end);
  bool fits(const Option& option, std::int64_t begin, std::int64_t end, std::int64_t stage);
  bool fits_exactly(const Option& option, std::int64_t begin, std::int64_t end, std::int64_t stage) const;
  double value(double slowest_s, double sum_s) const;
  double cap(double sum_s, double limit_s) const;
  bool windows(double cap_s);
  std::optional<Found> pass(double cap_s, double theta_s, LeafPlan& plan);
  std::optional<LeafPlan> search(double limit_s);

  const PlanSpace* space_;
  SyncRule rule_;
  const PairPrices* pair_ = nullptr;
  Strategy strategy_;
  double m_ = 1, v_ = 1;
  int only_ = -1;  // uniform plans: the one option looked at
  PlacementPrices placements_;
  const SyncPrices* sync_ = nullptr;
  const Messages* messages_ = nullptr;
  double share_ = 1;  // of messages that is exposed
  MemoryFloor floor_;
  double room_bytes_ = 0;                                                              // without context
  using IntervalFits = std::unordered_map<int, std::array<Fit, StageOption::kCodes>>;  // by interval and option
  std::map<MemoryContext, IntervalFits> known_fits_;
  IntervalFits* fits_ = nullptr;
  std::size_t known_intervals_ = 0;
  std::vector<double> flight_;              // per stage
  std::vector<std::vector<double>> hop_s_;  // [boundary s][position]
  std::vector<double> hop_low_s_;           // per stage, at the fewest bytes
  double wrap_s_ = 0, sum_low_s_ = 0, low_s_ = 0;
  double once_low_s_ = 0;  // of Y and of what sharding adds to S / v
  std::uint64_t epoch_ = 0;
  std::vector<Interval> intervals_;
  std::vector<Option> pool_;
  std::vector<std::int64_t> low_, high_;
  std::vector<Cell> cells_;
  std::int64_t passes_ = 0;
};

}  // namespace nest
