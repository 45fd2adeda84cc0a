// Plans (nest/plan.h) inside nest.
#pragma once

#include "nest/plan.h"
#include "split/split.h"

namespace nest::plan {

// The runs of layers that a stage consists of: its chunks where they are listed, else one.
//     for (const ChunkPlan& run : runs_of(stage)) for (int i = run.first; i <= run.last; ++i) …
class StageRuns {
 public:
  explicit StageRuns(const StagePlan& stage) : chunks_(&stage.chunks) {
    whole_.first = stage.first;
    whole_.last = stage.last;
  }
  const ChunkPlan* begin() const { return chunks_->empty() ? &whole_ : chunks_->data(); }
  const ChunkPlan* end() const { return begin() + (chunks_->empty() ? 1 : chunks_->size()); }

 private:
  const std::vector<ChunkPlan>* chunks_;
  ChunkPlan whole_;
};

inline StageRuns runs_of(const StagePlan& stage) { return StageRuns(stage); }

// Chunks of a stage that one of its runs stands for.
inline std::int64_t chunks_per_run(const StagePlan& stage, std::int64_t chunks) {
  return stage.chunks.empty() ? chunks : 1;
}

// Either all stages of a plan list their chunks or none.
inline bool lists_chunks(const std::vector<StagePlan>& stages) {
  return !stages.empty() && !stages.front().chunks.empty();
}

}  // namespace nest::plan
