// Where to cut the chain of layers and what every stage recomputes and shards, for a 1F1B pipeline of which everything
// else is given: the outer problem of planners that tune stages first and join them afterwards.
//
// Inside a stage: of the layers [i, j) as stage s, the options (recomputation, ZeRO) that fit into memory, as points
// (t, y): seconds per micro-batch and per step. Between stages, with m micro-batches,
//     T = (m - 1) max t_s + sum t_s + max y_s
// is minimised exactly: a dynamic program over (stage, position) finds the least sum under a cap on every t and on
// every y. A plan whose slowest stage is faster than that of the last one found has a larger sum, which bounds the next
// cap; when no cap is left, only plans with a smaller max y can be better, which bounds the next cap on y.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "search/best_first.h"
#include "search/memory_floor.h"
#include "search/space.h"

namespace nest {

struct Partition {
  double time_s = 0;
  std::vector<StagePlan> stages;
};

class ChainPartition {
 public:
  // `prices` are those of the space's job.
  ChainPartition(const PlanSpace& space, PriceCache& prices);

  // Whether messages between stages are part of t; they are unless told.
  void count_messages(bool counted) { messages_ = counted; }
  // Positions where the chain may be cut; all unless told.
  void cut_only_at(const std::vector<std::int64_t>& positions);

  // No partition of the strategy takes less.
  double bound_s(const Strategy& strategy);
  // The best one, if it takes less than `limit_s`. The strategy has one chunk per stage.
  std::optional<Partition> solve(const Strategy& strategy, double limit_s);

 private:
  struct Option {
    double time_s, step_s;  // time: in excess of layers and messages
    int recompute, zero;
    double fits = -1, misfits = 1e300;  // micro-batches in flight that are known to (not to) fit
  };
  struct Cell {
    double sum_s;
    std::int64_t from;
    const Option* option;
  };
  struct Found {
    double slowest_s = 0, sum_s = 0, step_s = 0;
    std::vector<StagePlan> stages;
  };

  void look_at(const Strategy& strategy);
  void price_network();
  std::vector<Option>& options(std::int64_t begin, std::int64_t end);
  bool fits(Option& option, std::int64_t begin, std::int64_t end, std::int64_t stage);
  bool fits_now(const Option& option, std::int64_t begin, std::int64_t end, std::int64_t stage);
  Option* cheapest(std::int64_t begin, std::int64_t end, std::int64_t stage, double room_s, double step_cap_s);
  std::optional<Found> pass(double cap_s, double step_cap_s);
  Found trace() const;
  double cap_s(double sum_s, double value_s) const;
  void search(Partition& best);

  const PlanSpace* space_;
  PriceCache* prices_;
  SyncRule rule_;
  MemoryFloor floor_;
  bool messages_ = true;
  std::vector<bool> may_cut_;

  Strategy strategy_;
  std::shared_ptr<const PairPrices> pair_;
  double rounds_ = 0;  // m - 1
  double least_sum_s_ = 0, least_slowest_s_ = 0;
  double room_bytes_ = 0;
  int only_ = -1;                    // uniform plans: recompute * 4 + zero
  std::array<ShardLines, 2> lines_;  // ZeRO 0 to 2, ZeRO 3
  std::vector<double> flight_;
  std::vector<std::vector<double>> hop_s_;  // [boundary][position]
  std::map<std::array<std::int64_t, 5>, std::vector<CostLine>> known_hops_;
  std::vector<std::vector<Option>> options_;  // by interval
  std::vector<int> priced_;                   // intervals of options_ that are filled
  std::vector<Cell> cells_;
};

}  // namespace nest
