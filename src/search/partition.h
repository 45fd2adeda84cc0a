// The partition problem: cut the chain into stages and choose an option for each so that
//     m * tau + floor((S + extra - tau) / v) + Y
// is least, where tau = max t_s, S = sum t_s, Y = max y_s and every stage fits in memory. Solved exactly by dynamic
// programming passes over (stage, boundary) under a cap on tau and a cap theta on Y; docs/search.md proves the loop
// right.
//
// The same code serves leaves (prices of one key) and relaxations (component-wise best prices of a set of keys): by
// (P2) and (P3) a plan of any key of the set is feasible in the relaxation and costs no more there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/network.h"
#include "search/plan.h"
#include "search/priced.h"

namespace nest::search {

// Prices of a kind of stage. Stages of one class differ only in how many micro-batches they hold.
struct StageClass {
  Line hop_in, hop_out;      // zero at the ends of the pipeline
  std::int64_t wrap_ps = 0;  // per micro-batch
  bool operator==(const StageClass&) const = default;
};

struct PartitionProblem {
  const Priced* priced = nullptr;
  const Problem* problem = nullptr;
  SyncClass sync;
  std::vector<StageClass> classes;
  std::vector<int> class_of;            // per stage
  std::vector<std::int64_t> in_flight;  // per stage, in chunks; does not grow from stage to stage
  std::int64_t micro_batches = 1;       // m
  std::int64_t chunks = 1;              // v of hops, activations and layers per stage
  std::int64_t fill_chunks = 1;         // v by which the fill is divided; >= chunks in relaxations
  std::int64_t extra_ps = 0;            // added to S
  // Bounds known beforehand, valid for every plan sought.
  std::int64_t sum_low_ps = 0;            // S + extra, without ZeRO time
  std::int64_t per_iteration_low_ps = 0;  // Y
  std::int64_t joint_low_ps = 0;          // Y + (ZeRO time in S) / v

  std::int64_t stages() const { return static_cast<std::int64_t>(class_of.size()); }
};

struct PartitionPlan {
  std::int64_t time_ps = kForever;
  std::vector<std::int64_t> cuts;
  std::vector<int> options;  // codes
};

// Working memory of one thread. Results depend on the arguments only.
class PartitionSolver {
 public:
  // The optimum if it is <= limit, else nothing.
  std::optional<PartitionPlan> solve(const PartitionProblem& problem, std::int64_t limit_ps);

  // A lower bound on the optimum from one pass, or nothing when the optimum is proved > limit.
  std::optional<std::int64_t> bound(const PartitionProblem& problem, std::int64_t limit_ps);

  std::int64_t passes() const { return passes_; }

 private:
  // Times are in excess of the layers and hops of the stage.
  struct Option {
    std::int64_t time_ps, per_iteration_ps, most_in_flight;
    int code;
  };
  struct OptionList {
    std::uint32_t begin = 0, count = 0;
    std::int64_t most_in_flight = 0;  // over the list
    std::uint64_t epoch = 0;
    // Answer of choose(), valid in one pass for held_above < held <= held_most.
    std::int64_t pass = -1, held_above = 0, held_most = 0;
    std::int64_t fastest_ps = 0, least_once_ps = 0, time_of_least_ps = 0;
  };
  struct Minima {
    std::int64_t sum_ps, slowest_ps, per_iteration_ps;
  };
  struct Cell {
    std::int64_t sum_ps;
    std::int32_t from;
    std::int32_t option;
  };
  struct Found {
    std::int64_t slowest_ps, sum_ps, per_iteration_ps;
  };

  void start(const PartitionProblem& problem);
  std::int64_t value(std::int64_t slowest, std::int64_t sum) const;
  std::int64_t cap(std::int64_t sum, std::int64_t limit) const;
  bool windows(std::int64_t cap_ps);
  OptionList& options(std::int64_t begin, std::int64_t end);
  void list_options(std::int64_t begin, std::int64_t end, OptionList& list);
  void choose(OptionList& list, std::int64_t held, std::int64_t theta) const;
  std::int64_t least_once(const OptionList& list, std::int64_t held, std::int64_t theta, std::int64_t most_ps) const;
  std::optional<Minima> minima_pass(std::int64_t cap_ps, std::int64_t theta);
  std::optional<Found> sum_pass(std::int64_t cap_ps, std::int64_t theta, PartitionPlan& plan);
  std::int64_t first_caps(std::int64_t limit, std::int64_t& theta) const;
  bool improve(const Minima& minima, std::int64_t cap_ps, std::int64_t theta, std::int64_t& limit,
               std::int64_t& best_value, PartitionPlan& best);

  const PartitionProblem* p_ = nullptr;
  std::uint64_t epoch_ = 0;
  std::vector<OptionList> lists_;  // by interval id
  std::vector<Option> pool_;
  std::vector<std::vector<std::int64_t>> in_ps_, out_ps_;  // [class][boundary], hops of all chunks, wrap in in_ps_
  std::vector<std::int64_t> hop_low_;                      // per class: least hop time of a stage
  std::vector<std::int64_t> low_, high_;                   // per boundary of stages: admissible positions
  std::int64_t sum_low_ = 0;                               // S + extra, with what the passes have shown
  std::int64_t list_cap_ = 0, list_theta_ = 0;             // options beyond the first caps of a solve are not listed
  std::vector<Minima> now_, next_;
  std::vector<Cell> cells_;
  std::int64_t passes_ = 0;
};

}  // namespace nest::search
