// Exhaustive search with its own cost code: loops over devices, layers, all cuts and all vectors of options. Shares the
// definitions of problem.h with the search and nothing else.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "instance.h"
#include "search/plan.h"

namespace nest::search::test {

using Ranking = std::vector<std::pair<Score, Key>>;  // every feasible key with the score of its best plan, sorted

// Nothing when the instance has more than `budget` plans.
std::optional<Ranking> rank_all(const Instance& instance, double budget);

// Lines of one placement, by counting devices.
PlacementClass place_by_hand(const Instance& instance, const Key& key);

// Time of one plan, or nothing if it does not fit.
std::optional<std::int64_t> time_by_hand(const Instance& instance, const Plan& plan);

// Every key of the problem.
std::vector<Key> all_keys(const Instance& instance);

}  // namespace nest::search::test
