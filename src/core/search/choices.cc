#include "search/choices.h"

#include <algorithm>

#include "base/index.h"

namespace nest::search {

std::vector<StageChoice> list_choices(const plan::PlanLimits& limits) {
  std::vector<StageChoice> choices;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (!limits.recompute[at(recompute)]) continue;
    for (int zero = 0; zero < 4; ++zero) {
      if (!limits.zero[at(zero)]) continue;
      choices.push_back({recompute, zero, false});
      if (zero > 0 && limits.shard_in_node) choices.push_back({recompute, zero, true});
    }
  }
  return choices;
}

std::optional<int> find_choice(const std::vector<StageChoice>& choices, const StageChoice& choice) {
  const auto found = std::find(choices.begin(), choices.end(), choice);
  if (found == choices.end()) return std::nullopt;
  return static_cast<int>(found - choices.begin());
}

StagePlan stage_of(std::int64_t begin, std::int64_t end, const StageChoice& choice, std::int64_t node_degree) {
  StagePlan stage;
  stage.first = static_cast<int>(begin);
  stage.last = static_cast<int>(end - 1);
  stage.zero = choice.zero;
  stage.zero_degree = choice.in_node ? node_degree : 0;
  stage.recompute = choice.recompute;
  return stage;
}

}  // namespace nest::search
