// What each training framework can be told, and the best plan inside that.
//
// A framework's rules are one predicate, obstacles(): what of a plan it cannot run. The nearest plan is the fastest one
// without obstacles. It is found with searches over limits that contain every such plan: plans come best first, so the
// first one without obstacles is the optimum of its search, and the best of all searches the optimum of the framework.
// DeepSpeed cuts a pipeline by its own rule: there the searches give lower bounds, plan by plan, for the same strategy
// cut that way, and stop when the bound passes the best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/rank_map.h"
#include "search/planner.h"

namespace nest {

enum class Framework : std::uint8_t { megatron, nemo, deepspeed, torchtitan };

const char* to_string(Framework framework);

// How a stage shards its state: ZeRO stage and over how many ranks; {0, 1} where there is nothing to divide by.
struct Sharding {
  int zero = 0;
  std::int64_t degree = 1;
  bool operator==(const Sharding&) const = default;
};
Sharding sharding_of(const Strategy& strategy, const StagePlan& stage);

// What the framework cannot do, each as the rest of a sentence that starts with its name: "cannot shard stage 3 alone
// (ZeRO 3 there, ZeRO 1 elsewhere)". Empty: it runs the plan as it is. Stages must be sound for the strategy.
std::vector<std::string> obstacles(Framework framework, const Job& job, const Strategy& strategy,
                                   const std::vector<StagePlan>& stages);

// What the framework cannot compute in at all, with the same beginning; then `usable_precision` is what it can.
std::string precision_obstacle(Framework framework, ComputePrecision precision);
ComputePrecision usable_precision(Framework framework, ComputePrecision precision);

// Stack whose prices are those of the framework as people run it.
const char* usual_stack(Framework framework);

struct NearestPlan {
  PlannedStrategy plan;
  bool proven = false;  // no plan that the framework runs is faster
  double wall_s = 0;
};

// Nothing when no plan that the framework can run fits (or, with a time limit, none was found).
std::optional<NearestPlan> nearest_plan(Framework framework, const Job& job, const SearchOrder& order,
                                        PriceCache* prices = nullptr);

}  // namespace nest
