// Of plans that are equally good, the one that people run.
//
// Predictions are not exact to the last digit, so plans within a tie (0.5 % unless somebody says otherwise) of the
// optimum count as equally good. What makes one odd, the most serious first:
//
//   idle devices         some of the devices are not used (not when device-hours are minimised)
//   own rank order       dp_inner is not dp: ranks are not numbered as frameworks do it unless told
//   uneven batch         the batch is no multiple of micro-batch x dp, or an interleaved one's rounds none of pp
//   unusual schedule     neither 1F1B nor interleaved
//   on the host          what modules keep waits there
//   different stages     stages recompute or shard differently
//   uneven cuts          chunks hold different numbers of layers (search/even_cuts.h)
//   groups that shard    state is divided over some of the replicas, not over all
//   interleaved chunks   more than one chunk per stage
//
// Plans compare by these words in that order, without before with (lexicographically), then by time: the first of all
// plans within the tie is the answer. It is found exactly. Limits say each word (plan/limits.h), so for every word
// that the best plan so far has, a search under the limits kept so far and that one tells whether a plan within the tie
// does without: if so the limit is kept and its best plan taken, if not no plan within the tie does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/planner.h"

namespace nest::search {

struct Oddity {
  const char* name;
  bool (*has)(const cost::Job& job, std::int64_t devices, const Plan& plan);
  void (*avoid)(plan::PlanLimits& limits);
};

// Most serious first.
std::span<const Oddity> oddities(PlanObjective objective);

// Makes the simplest plan within `tie` (a fraction, >= 0) the first of a proven answer, and drops the others of its kind.
// Where time runs out, the simplest one so far. `answer` is that of `request`.
void prefer_simplest(const PlanRequest& request, double tie, PlanAnswer& answer);

}  // namespace nest::search
