// Plans found fast: balanced cuts for a sample of keys.
#pragma once

#include <functional>
#include <vector>

#include "search/incumbents.h"
#include "search/tree.h"

namespace nest::search {

// Cuts the chain into stages of about equal time and gives each the option that adds least; nothing if some stage does
// not fit that way.
std::optional<Offer> balanced_plan(const Shared& shared, const Key& key, const PlacementClass& placed);

// Tries keys of the given pairs, most promising first, until the bound of a pair exceeds what is known; then solves the
// best of them and climbs from there to better neighbours. Offers what it finds. `expired` is polled.
void quick_plans(Shared& shared, const std::vector<Node>& pairs, Incumbents& incumbents, Opener& opener,
                 Counters& counters, const std::function<bool()>& expired);

}  // namespace nest::search
