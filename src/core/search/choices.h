// What a stage may do about memory: what it recomputes, and over what it shards its state. What is recomputed and what is
// sharded are chosen independently: every combination of what stack and limits admit.
//
// Sets of modules. Offered are all sets of those modules that spare at least kLeastSpared of what some layer keeps and
// that the stack runs together; where these are more than 64, those of at most three. How many layers are recomputed as a
// whole (Recompute::block) is no choice of this list: search/space.h counts them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cost/job.h"
#include "cost/sharding_traffic.h"
#include "plan/limits.h"
#include "plan/plan.h"

namespace nest::search {

struct StageChoice {
  Recomputation recompute;
  int zero = 0;          // 0 … 3
  bool in_node = false;  // sharded inside a node; else over all replicas
  bool outer = false;    // with ZeRO 3 inside a node: the optimizer's state over all replicas

  int row() const { return cost::sharding_row(zero, outer); }
  bool operator==(const StageChoice&) const = default;
};

inline constexpr double kLeastSpared = 0.005;

std::vector<RecomputeSet> offered_sets(const cost::Job& job);

// Modules that wait on the host. Offered are parts of a layer that keep at least kLeastMoved of what some layer
// keeps, each alone and, from the largest on, together: what one of them frees for a second of the link, the others do
// too, so that it matters how much is moved and little what.
inline constexpr double kLeastMoved = 0.02;

std::vector<OffloadSet> offered_offloads(const cost::Job& job);
// What plans may choose from: nothing first, then what is offered where the limits ask for it, then what they name.
std::vector<OffloadSet> list_offloads(const cost::Job& job, const plan::PlanLimits& limits);

// In order of preference at equal cost: less of it first. Without Recompute::block.
std::vector<Recomputation> list_recomputations(const cost::Job& job, const plan::PlanLimits& limits);
bool offers_blocks(const cost::Job& job, const plan::PlanLimits& limits);

// Ways to shard that are part of some best plan: the lower ZeRO stage first, then all replicas, then optimizer state with
// the rest.
std::vector<StageChoice> list_shardings(const cost::Job& job, const plan::PlanLimits& limits);

// Index of a choice; nothing where it is not admitted.
std::optional<int> find_choice(const std::vector<StageChoice>& choices, const StageChoice& choice);

// Layers [begin, end) under that choice. `node_degree`: ranks that share inside a node.
StagePlan stage_of(std::int64_t begin, std::int64_t end, const StageChoice& choice, std::int64_t node_degree);

}  // namespace nest::search
