#include "search/even_cuts.h"

#include <algorithm>

#include "base/index.h"
#include "cost/evaluate.h"

namespace nest::search {

std::vector<std::int64_t> even_cuts(const cost::Job& job, std::int64_t pp, std::int64_t virtual_stages) {
  const std::int64_t chunks = pp * virtual_stages;
  const auto blocks = std::count_if(job.model.layers.begin(), job.model.layers.end(),
                                    [&](int kind) { return job.model.kinds[at(kind)].counted_block(); });
  const bool divides = blocks > 0 && blocks % chunks == 0;
  // Without blocks even_stages() has nothing to count.
  if (!divides && (blocks == 0 || job.model.layer_count() % chunks != 0)) {
    return pp == 1 ? std::vector<std::int64_t>{0, job.model.layer_count()} : std::vector<std::int64_t>{};
  }
  Strategy strategy;
  strategy.pp = pp;
  strategy.virtual_stages = virtual_stages;
  std::vector<std::int64_t> cuts{0};
  for (const StagePlan& stage : cost::even_stages(job, strategy, Recompute::none, 0)) {
    if (stage.last < stage.first) return {};
    cuts.push_back(stage.last + 1);
  }
  return cuts;
}

}  // namespace nest::search
