// The keys of a problem, enumerated by arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "search/plan.h"
#include "search/problem.h"

namespace nest::search {

// Replica counts with the same number of micro-batches m.
struct Plateau {
  std::int64_t micro_batches = 0;
  std::int64_t low = 1, high = 0;  // replicas; empty if low > high
};

// Of one (split, micro-batch size).
class Space {
 public:
  Space(const Problem& problem, int split, int micro_batch);

  std::int64_t block() const { return a_; }      // devices of one stage of one replica
  std::int64_t round() const { return round_; }  // samples one replica takes per micro-batch: b * expert
  bool admissible() const { return round_ <= problem_->global_batch; }
  std::int64_t most_stages() const;
  bool admits_stages(std::int64_t stages) const { return problem_->stages.admits(stages); }
  bool admits_schedule(std::int64_t stages, int schedule) const;

  std::int64_t least_replicas() const { return problem_->replicas.low; }
  std::int64_t most_replicas(std::int64_t stages) const;
  std::int64_t micro_batches(std::int64_t replicas) const;

  // The first non-empty plateau with at least `micro_batches`, for a key with this many stages; empty when there is
  // none.
  Plateau plateau(std::int64_t stages, std::int64_t micro_batches) const;

  // Whether the key may be used, given that stages and schedule are admitted.
  bool admits(std::int64_t stages, int schedule, std::int64_t replicas, std::int64_t inner) const;

  // Distinct pitches, smallest first.
  std::vector<std::int64_t> pitches(std::int64_t stages, std::int64_t inner) const;

  // Most replicas (a multiple of inner) that fit with this pitch.
  std::int64_t fitting(std::int64_t stages, std::int64_t inner, std::int64_t pitch) const;

  // Keys not counting pitches: (stages, schedule, replicas, inner replicas).
  std::int64_t count_keys() const;

 private:
  const Problem* problem_;
  std::int64_t a_, round_;
};

}  // namespace nest::search
