// In which order one stage of a pipeline works, as the frameworks do it.
//   gpipe        all forwards, then all backwards
//   1f1b         min(p-1-s, m) forwards, then forward and backward in turn, then the backwards that are left
//   interleaved  chunks of layers in turn: groups of p micro-batches pass chunk 0, then chunk 1, …; backward the same
//                with the last chunk first. 2(p-1-s) + (v-1)p forwards come before the first backward
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace nest {

struct PipelineStep {
  bool backward = false;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;

  bool operator==(const PipelineStep&) const = default;
};

std::vector<PipelineStep> stage_order(const Strategy& strategy, std::int64_t micro_batches, std::int64_t stage);

}  // namespace nest
