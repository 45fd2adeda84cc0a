// What a stage may do about memory. Options of the search are indices into one list that is made from the limits;
// besides it only what prices a stage (search/key_prices.h) knows what they mean.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/limits.h"
#include "plan/plan.h"

namespace nest::search {

struct StageChoice {
  Recompute recompute = Recompute::none;
  int zero = 0;          // 0 … 3
  bool in_node = false;  // sharded inside a node; else over all replicas

  bool operator==(const StageChoice&) const = default;
};

// In order of preference at equal cost: less recomputation, then the lower ZeRO stage, then all replicas. What is
// recomputed and what is sharded are chosen independently: every combination of what the limits admit.
std::vector<StageChoice> list_choices(const plan::PlanLimits& limits);

// Index of a choice; nothing where the limits do not admit it.
std::optional<int> find_choice(const std::vector<StageChoice>& choices, const StageChoice& choice);

// Layers [begin, end) under that choice. `node_degree`: ranks that share inside a node.
StagePlan stage_of(std::int64_t begin, std::int64_t end, const StageChoice& choice, std::int64_t node_degree);

}  // namespace nest::search
