#include "search/variants.h"

#include <algorithm>
#include <optional>

#include "base/index.h"

namespace nest::search {
namespace {

using Cuts = std::vector<std::int64_t>;  // 0 … layers, one more than stages

Cuts cuts_of(const std::vector<StagePlan>& stages) {
  Cuts cuts = {0};
  for (const StagePlan& stage : stages) cuts.push_back(stage.last + 1);
  return cuts;
}

bool admits(const PlanSpace& space, const Cuts& cuts, std::int64_t chunks) {
  const std::int64_t stages = std::ssize(cuts) - 1;
  for (std::int64_t s = 0; s < stages; ++s) {
    if (s > 0 && !space.may_cut(cuts[at(s)], chunks)) return false;
    if (cuts[at(s + 1)] - cuts[at(s)] < space.fewest_layers(s, stages, chunks)) return false;
  }
  return true;
}

// The cuts begin … end - 1 at their next positions in a direction.
std::optional<Cuts> shifted(const PlanSpace& space, Cuts cuts, std::size_t begin, std::size_t end, std::int64_t by,
                            std::int64_t chunks) {
  for (std::size_t k = begin; k < end; ++k) {
    do {
      cuts[k] += by;
      if (cuts[k] <= 0 || cuts[k] >= space.layers()) return std::nullopt;
    } while (!space.may_cut(cuts[k], chunks));
  }
  if (!admits(space, cuts, chunks)) return std::nullopt;
  return cuts;
}

}  // namespace

std::vector<std::vector<StagePlan>> moved_cuts(const PlanSpace& space, const Plan& plan, MovedTo where) {
  const std::vector<StagePlan>& stages = plan.stages;
  const auto listed = [](const StagePlan& stage) { return !stage.chunks.empty(); };
  if (stages.size() < 2 || std::any_of(stages.begin(), stages.end(), listed)) return {};
  const std::int64_t chunks = plan.strategy.virtual_stages;
  const Cuts cuts = cuts_of(stages);
  const auto [shortest, longest] = std::minmax_element(
      stages.begin(), stages.end(), [](const StagePlan& a, const StagePlan& b) { return a.time.total < b.time.total; });
  const auto fastest = static_cast<std::size_t>(shortest - stages.begin());
  const auto slowest = static_cast<std::size_t>(longest - stages.begin());
  std::vector<Cuts> moved;
  for (std::size_t from = 1; from < stages.size(); ++from) {
    const std::size_t last = where == MovedTo::neighbours ? from + 1 : stages.size();
    for (std::size_t end = from + 1; end <= last; ++end) {
      for (const std::int64_t by : {-1, 1}) {
        const std::size_t loses = by < 0 ? from - 1 : end - 1, gains = by < 0 ? end - 1 : from - 1;
        const bool wanted = where != MovedTo::ends || end == from + 1 || loses == slowest || gains == fastest;
        if (!wanted) continue;
        if (auto found = shifted(space, cuts, from, end, by, chunks)) moved.push_back(std::move(*found));
      }
    }
  }
  Cuts mirrored;
  for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) mirrored.push_back(cuts.back() - *cut);
  const bool known = mirrored == cuts || std::find(moved.begin(), moved.end(), mirrored) != moved.end();
  if (!known && admits(space, mirrored, chunks)) moved.push_back(std::move(mirrored));

  std::vector<std::vector<StagePlan>> found;
  found.reserve(moved.size());
  for (const Cuts& each : moved) {
    found.push_back(stages);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      found.back()[s].first = static_cast<int>(each[s]);
      found.back()[s].last = static_cast<int>(each[s + 1] - 1);
    }
  }
  return found;
}

std::vector<std::vector<StagePlan>> resharded(const PlanSpace& space, const Plan& plan, ShardedOtherwise which) {
  const bool one = which == ShardedOtherwise::also_one && !space.limits().uniform && plan.stages.size() > 1;
  const std::int64_t inside = space.node_degree(plan.strategy).value_or(0);
  std::vector<std::vector<StagePlan>> found;
  for (const StageChoice& sharding : space.shardings()) {
    if ((sharding.in_node && inside == 0) || !space.treats(plan.strategy, sharding)) continue;
    const auto shard = [&](StagePlan& stage) {
      stage.zero = sharding.zero;
      stage.zero_degree = sharding.in_node ? inside : 0;
      stage.zero_outer = sharding.outer;
    };
    found.push_back(plan.stages);
    std::for_each(found.back().begin(), found.back().end(), shard);
    for (std::size_t s = 0; one && s < plan.stages.size(); ++s) {
      found.push_back(plan.stages);
      shard(found.back()[s]);
    }
  }
  return found;
}

}  // namespace nest::search
