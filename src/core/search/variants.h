// Plans of one strategy that differ a little from a given one: in where their stages are cut, or in how they shard their
// state. They are not priced and need not fit.
#pragma once

#include <vector>

#include "nest/plan.h"
#include "search/space.h"

namespace nest::search {

enum class MovedTo : std::uint8_t {
  neighbours,
  ends,  // and from the stage with the longest time to any, from any to the one with the shortest
  anywhere,
};

// The stages of `plan` with the least number of layers moved from one stage to another, all stages between them keeping
// theirs; and with the numbers of layers in reverse order. All of them are cut as the
// space allows. Nothing where stages list their chunks or there is one stage.
std::vector<std::vector<StagePlan>> moved_cuts(const PlanSpace& space, const Plan& plan, MovedTo where);

enum class ShardedOtherwise : std::uint8_t { all_stages, also_one };

// The stages of `plan` with another way to shard, in all of them, and in each of them alone where the space lets stages
// differ.
std::vector<std::vector<StagePlan>> resharded(const PlanSpace& space, const Plan& plan, ShardedOtherwise which);

}  // namespace nest::search
