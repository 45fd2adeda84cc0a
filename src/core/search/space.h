// The plans a search chooses from: keys, enumerated by arithmetic.
//
// A key (search/key.h) fixes split, micro-batch, stages, schedule, replicas, inner replicas and pitch; a plan adds
// where the chain of layers is cut and what every stage recomputes and shards. Splits are all legal ones with tp and cp
// up to 64 (cp a power of two), micro-batches are 1, 2, 4 … 64, chunks of interleaved schedules 2, 3, 4, 5, 6, 8, 10,
// 12; replicas are all counts that the batch and the limits admit.
//
// Context ranks exchange as the stack names it, or as somebody asks. Under a2a+p2p, unless somebody limits cp_inner, as
// many neighbours as heads allow trade them inside an innermost unit that does not hold all of tp · cp. Where a ring may
// be chosen, other exchanges with which no layer is faster in any pass are left out, micro-batch by micro-batch.
//
// Mixtures of experts have a second grid, etp · ep neighbouring ranks for one set of experts (nest/strategy.h). Replicas
// come in teams that hold whole sets, so keys count teams: every dp and dp_inner of a key is legal. Unless somebody
// limits etp, it is 1, 2 or tp; unless somebody limits ep, etp · ep is at least tp · cp or divides U, the devices of an
// innermost unit (of a torus, tp · cp).
//
// What waits on the host (Split::offload) is the same in every block of a plan: every split is there once for each set of
// modules that the limits ask for. Layers that are recomputed from their inputs have nothing there.
//
// Interleaved schedules. A stage is priced as one interval of layers, of which each of its v chunks holds a part. That
// can be realised when the chain is a head of any layers, a motif of layers that repeats, and a tail: the first stage
// holds the head (in its first chunk) and at least one motif for every other chunk, the last one the same with the
// tail, every other stage at least one motif per chunk, and stages are cut between motifs. Then whole motifs can be
// handed to chunks in any numbers, and the model's order is kept whatever they are. A chain of which nothing repeats
// (model/motif.h) is not interleaved.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/index.h"
#include "cost/job.h"
#include "model/motif.h"
#include "plan/limits.h"
#include "plan/plan.h"
#include "schedule/rules.h"
#include "search/choices.h"
#include "search/deadline.h"
#include "search/key.h"

namespace nest::search {

struct ScheduleChoice {
  Schedule kind = Schedule::one_f_one_b;
  std::int64_t chunks = 1;
  std::int64_t wraps = 0;   // messages from the last stage to the first, per micro-batch and direction
  std::int64_t fewest = 0;  // micro-batches, in units of stages
  bool is_split = false;    // weight gradients are computed apart

  bool in_groups() const { return kind == Schedule::interleaved; }
};

// Replicas from low to high have equally many micro-batches each.
struct Plateau {
  std::int64_t low = 0, high = 0;
};

// Ascending.
std::vector<std::int64_t> divisors_of(std::int64_t value);

class PlanSpace {
 public:
  PlanSpace(const cost::Job& job, const plan::PlanLimits& limits, std::int64_t devices);

  const cost::Job& job() const { return *job_; }
  const plan::PlanLimits& limits() const { return limits_; }
  std::int64_t devices() const { return devices_; }
  const std::vector<Split>& splits() const { return splits_; }
  const std::vector<std::int64_t>& micro_batches() const { return micro_batches_; }
  const std::vector<ScheduleChoice>& schedules() const { return schedules_; }
  const ScheduleChoice& schedule(const Key& key) const { return schedules_[at(key.schedule)]; }

  // What stages choose from: every recomputation with every sharding, in that order. Those inside nodes need a
  // node_degree(). Options are indices into it; behind them, for n = 1, 2, … blocks per chunk that are recomputed as a
  // whole, every sharding.
  const std::vector<StageChoice>& choices() const { return choices_; }
  const std::vector<Recomputation>& recomputations() const { return recomputations_; }
  const std::vector<StageChoice>& shardings() const { return shardings_; }
  StageChoice choice(int option) const;
  bool offers_blocks() const { return most_blocks_ > 0; }
  std::int64_t most_blocks() const { return most_blocks_; }  // of n
  int block_option(std::int64_t blocks, int sharding) const;
  int options() const { return block_option(most_blocks_ + 1, 0); }

  std::int64_t layers() const { return job_->model.layer_count(); }
  // Layers first … first + count - 1 and any others with the same number of each kind share an id; where it matters
  // which of them come first (blocks), those with the same kinds in the same order.
  int interval(std::int64_t begin, std::int64_t end) const { return interval_[at(begin * (layers() + 1) + end)]; }
  const std::vector<int>& interval_table() const { return interval_; }  // [begin * (layers + 1) + end]
  int intervals() const { return interval_count_; }

  Strategy strategy(const Key& key) const;
  std::int64_t team(const Key& key) const { return splits_[at(key.split)].team(); }
  std::int64_t stage_devices(const Key& key) const;  // of one team
  std::int64_t most_stages(const Key& key) const;
  // The split that differs in its exchange of contexts alone, a plain ring, where that may be chosen; of the ring itself
  // nothing. No other exchange keeps or needs less memory.
  std::optional<int> ring_of(const Key& key) const { return rings_[at(key.split)]; }
  // Those of which it is the ring.
  const std::vector<int>& other_exchanges(const Key& key) const { return others_[at(key.split)]; }
  // Whether split and micro-batch can be combined at all.
  bool admits_pair(const Key& key) const;
  bool admits_schedule(const Key& key) const;  // given stages and schedule
  // Given stages and schedule: the admitted replicas with the fewest micro-batches among those up to `most`; then
  // plateau.low - 1 gives the next.
  std::optional<Plateau> plateau(const Key& key, std::int64_t most) const;
  std::int64_t most_replicas(const Key& key) const;  // that devices, batch and limits admit, or more
  std::optional<std::int64_t> next_replicas(const Key& key, const Plateau& plateau) const;  // the fewest admitted ones
  std::vector<std::int64_t> inner_replicas(const Key& key) const;                           // given replicas
  std::vector<std::int64_t> pitches(const Key& key) const;  // given inner replicas; those that fit

  // What a framework runs, where the limits name one.
  bool places(const Strategy& strategy) const { return limits_.runs == nullptr || limits_.runs->places(strategy); }
  // `degree`: node_degree() of the strategy, 0 where there is none.
  bool treats(const Strategy& strategy, const StageChoice& choice, std::int64_t degree) const;
  bool treats(const Strategy& strategy, const StageChoice& choice) const {
    return treats(strategy, choice, choice.in_node ? node_degree(strategy).value_or(0) : 0);
  }

  std::int64_t micro_batch_count(const Key& key) const;

  // Where stages with so many chunks may be cut, and the fewest layers of stage s of p.
  bool may_cut(std::int64_t position, std::int64_t chunks) const;
  std::int64_t fewest_layers(std::int64_t stage, std::int64_t stages, std::int64_t chunks) const;
  // The former for all positions 0 … layers; false for both ends.
  const std::vector<char>& cuts(bool interleaved) const { return cuts_[interleaved ? 1 : 0]; }
  // The same where all chunks are of one size (PlanLimits::even_cuts): the only way to cut so many stages and chunks.
  const std::vector<char>& even_cuts(std::int64_t stages, std::int64_t chunks) const {
    return even_.at({stages, chunks});
  }
  // Degree of the sharding group inside one innermost unit; nothing where there is none beside 1 and all.
  std::optional<std::int64_t> node_degree(const Strategy& strategy) const;
  // What it can be, wherever the replicas stand; the largest first.
  std::vector<std::int64_t> node_degrees(const Strategy& strategy) const;

  // Stages between the cuts, with options out of choices().
  std::vector<StagePlan> stages(const Strategy& strategy, const std::vector<std::int64_t>& cuts,
                                const std::vector<int>& options) const;

  // Keys, not counting pitches; where time runs out, some of them if there are any.
  double count_keys(const Deadline& deadline = {}) const;

 private:
  void list_splits();
  std::vector<Split> context_exchanges(Split split) const;  // with every exchange that may be chosen
  void list_offloads();                                     // every split with everything that may wait on the host
  void list_expert_grids(const Split& attention, std::int64_t experts, const split::RunShape& shape);
  bool admits(const schedule::Rule& rule) const;
  void list_schedules();
  void list_even_cuts();
  bool same_grids(const Key& key) const;  // both have the same pipelines wherever the replicas stand
  void index_intervals();
  std::int64_t sequences_per_round(const Key& key) const;  // of one replica
  bool admits_replicas(const Key& key, std::int64_t replicas) const;

  const cost::Job* job_;
  plan::PlanLimits limits_;
  std::int64_t devices_;
  bool has_experts_ = false;
  std::vector<Split> splits_;
  std::vector<std::optional<int>> rings_;  // of every split
  std::vector<std::vector<int>> others_;
  std::vector<std::int64_t> micro_batches_;
  std::vector<ScheduleChoice> schedules_;
  std::vector<Recomputation> recomputations_;
  std::vector<StageChoice> shardings_, choices_;
  std::int64_t most_blocks_ = 0;
  std::vector<std::int64_t> alignments_;
  std::map<std::int64_t, std::vector<std::int64_t>> divisors_;  // ascending, of the batch over sequences_per_round
  model::ChainMotif motif_;
  std::array<std::vector<char>, 2> cuts_;                          // of stages with one chunk, with several
  std::map<std::array<std::int64_t, 2>, std::vector<char>> even_;  // by stages and chunks, where such cuts exist
  std::vector<int> interval_;
  int interval_count_ = 0;
};

}  // namespace nest::search
