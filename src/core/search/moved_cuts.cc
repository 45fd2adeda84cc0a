#include "search/moved_cuts.h"

#include <algorithm>

#include "base/index.h"

namespace nest::search {

std::vector<std::vector<StagePlan>> moved_cuts(const Plan& plan) {
  std::vector<std::vector<StagePlan>> found;
  const std::vector<StagePlan>& stages = plan.stages;
  const auto listed = [](const StagePlan& stage) { return !stage.chunks.empty(); };
  if (stages.size() < 2 || plan.strategy.virtual_stages > 1 || std::any_of(stages.begin(), stages.end(), listed)) {
    return found;
  }
  found.reserve(2 * stages.size() - 1);
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    for (const int by : {-1, 1}) {
      std::vector<StagePlan> moved = stages;
      moved[s].last += by;
      moved[s + 1].first += by;
      const auto empty = [](const StagePlan& stage) { return stage.last < stage.first; };
      if (!empty(moved[s]) && !empty(moved[s + 1])) found.push_back(std::move(moved));
    }
  }
  std::vector<StagePlan> mirrored = stages;
  int first = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StagePlan& other = stages[stages.size() - 1 - s];
    mirrored[s].first = first;
    mirrored[s].last = first + other.last - other.first;
    first = mirrored[s].last + 1;
  }
  const auto same = [](const StagePlan& a, const StagePlan& b) { return a.last == b.last; };
  if (!std::equal(stages.begin(), stages.end(), mirrored.begin(), same)) found.push_back(std::move(mirrored));
  return found;
}

}  // namespace nest::search
