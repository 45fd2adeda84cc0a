// The plans a search chooses from: keys, enumerated by arithmetic.
//
// A key (search/plan.h) fixes split, micro-batch, stages, schedule, replicas, inner replicas and pitch; a plan adds
// where the chain of layers is cut and what every stage recomputes and shards. Splits are all legal ones with tp and cp
// up to 64 (cp a power of two), micro-batches are 1, 2, 4 … 64, chunks of interleaved schedules 2, 3, 4, 5, 6, 8, 10,
// 12; replicas are all counts that the batch and the limits admit. Interleaved schedules are offered where the interior
// of the chain is one run of identical layers, because only there any assignment of counts to chunks can be realised.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cost/job.h"
#include "plan/plan.h"
#include "planner/limits.h"
#include "search/plan.h"

namespace nest {

using search::Key;

struct ScheduleChoice {
  Schedule kind = Schedule::one_f_one_b;
  std::int64_t chunks = 1;
};

// What one stage does about memory, packed as in search/plan.h.
using search::StageOption;

class PlanSpace {
 public:
  PlanSpace(const Job& job, const PlanLimits& limits, std::int64_t devices);

  const Job& job() const { return *job_; }
  const PlanLimits& limits() const { return limits_; }
  std::int64_t devices() const { return devices_; }
  const std::vector<Split>& splits() const { return splits_; }
  const std::vector<std::int64_t>& micro_batches() const { return micro_batches_; }
  const std::vector<ScheduleChoice>& schedules() const { return schedules_; }
  const ScheduleChoice& schedule(const Key& key) const { return schedules_[static_cast<std::size_t>(key.schedule)]; }

  std::int64_t layers() const { return static_cast<std::int64_t>(job_->model.layers.size()); }
  // Layers first … first + count - 1 and any others with the same number of each kind share an id.
  int interval(std::int64_t begin, std::int64_t end) const {
    return interval_[static_cast<std::size_t>(begin * (layers() + 1) + end)];
  }
  int intervals() const { return interval_count_; }

  Strategy strategy(const Key& key) const;
  std::int64_t stage_devices(const Key& key) const;
  std::int64_t most_stages(const Key& key) const;
  // Whether split and micro-batch can be combined at all.
  bool admits_pair(const Key& key) const;
  bool admits_schedule(const Key& key) const;                      // given stages and schedule
  std::vector<std::int64_t> replicas(const Key& key) const;        // given stages and schedule; descending
  std::vector<std::int64_t> inner_replicas(const Key& key) const;  // given replicas
  std::vector<std::int64_t> pitches(const Key& key) const;         // given inner replicas; those that fit

  std::int64_t micro_batch_count(const Key& key) const;
  // Degree of the sharding group inside one innermost unit; nothing where there is none beside 1 and all.
  std::optional<std::int64_t> node_degree(const Strategy& strategy) const;

  // Keys, not counting pitches.
  double count_keys() const;

 private:
  void list_splits();
  void list_schedules();
  void index_intervals();

  const Job* job_;
  PlanLimits limits_;
  std::int64_t devices_;
  std::vector<Split> splits_;
  std::vector<std::int64_t> micro_batches_;
  std::vector<ScheduleChoice> schedules_;
  std::vector<std::int64_t> alignments_;
  std::vector<int> interval_;
  int interval_count_ = 0;
};

}  // namespace nest
