// The plan that is fastest when it is executed.
//
// The formula of the search prices links as if stages took turns on them; execution (simulate/step_judge.h) knows better.
// The first plans of the search are executed. Where the first takes what was predicted, it stays, unless devices share
// slow links and plans that the formula prices too high could be faster by the least law, or exchanges over a torus take
// a good part of the step. Where not, keys that
// the formula prices below 1.1 times the best executed time are listed, best first, and so are those that could be
// fastest by the least law (schedule/step_time.h); those whose lower bound is below the best executed time are executed.
// Of the best layers are moved from stage to stage, and the head's gradients put off or not, as long as that helps. They and the formula's own are executed again
// with noise; another plan must be 1 % faster to be preferred.
// The lists end after kListed and kMostListed keys: `complete` says whether anything was left out that the formula prices
// so low, `least_s` what no plan undercuts, `certain` that this leaves no room for one that is 1 % faster.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "search/planner.h"

namespace nest {

// Reorders the plans of `found`, the answer to `request`, by executed time, and puts better ones before them; as many
// stay as were asked for, each of another kind. Of the first, within `tie` of the fastest the simplest is taken
// (search/simplest.h). Every plan's record says what was executed. Plans that are too large to execute stay as they are.
// `better`, where somebody wants to know, is told of plans that are better than those before when they are executed.
void judge_by_execution(const search::PlanRequest& request, double tie, search::PlanAnswer& found,
                        const std::function<void(const Plan&)>& better = {});

// The same judge for what overrules a decision of an executed plan: where that takes longer than predicted, so may they.
// What is not executed by `end` stays as the formula has it.
void judge_by_execution(const search::PlanRequest& request, const Plan& best, std::vector<WhyNot>& whys,
                        std::chrono::steady_clock::time_point end);

}  // namespace nest
