// Every plan of a small problem, one by one: what the planner must agree with.
//
// Shares the prices of the cost model with the planner (price_table, sum_stage, stage_cost, sync lines,
// message_seconds, StageMemoryModel) and nothing else: which plans there are is written here again from the definitions
// of search/space.h and plan/limits.h, and so is the time of a plan,
//     T = m max t_s + (sum t_s - max t_s) / v + max y_s.
// Per stage, options that fit and are not dominated in (t, y) are kept; every cut and every combination of those is
// looked at.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cost/job.h"
#include "plan/limits.h"
#include "plan/plan.h"

namespace nest::test {

// The best plan of one key: of everything but cuts and stages' options.
struct OracleBest {
  Strategy strategy;
  double time_s = 0;
  std::vector<StagePlan> stages;
};

struct OracleAnswer {
  std::vector<OracleBest> keys;  // those of which a plan fits, in the order of all_strategies()
  std::int64_t plans = 0;        // looked at
};

// Head, motif, repeats, tail of a chain; repeats is 0 where nothing repeats.
struct ChainPattern {
  std::int64_t head = 0, motif = 1, repeats = 0, tail = 0;
};
ChainPattern chain_pattern(const std::vector<int>& layers);

// All keys that limits and devices admit.
std::vector<Strategy> all_strategies(const cost::Job& job, const plan::PlanLimits& limits, std::int64_t devices);

// Sharding degrees that stages of the strategy may have: 0 (all), and that of the innermost unit where there is one.
std::vector<std::int64_t> sharding_degrees(const cost::Job& job, const plan::PlanLimits& limits,
                                           const Strategy& strategy);

// What stages may recompute, every number of blocks with it.
std::vector<Recomputation> all_recomputations(const cost::Job& job, const plan::PlanLimits& limits);

// What may wait on the host, and whether stages that recompute so have it there.
std::vector<OffloadSet> all_offloads(const cost::Job& job, const plan::PlanLimits& limits);
bool may_offload(const cost::SoftwareStack& stack, OffloadSet modules, const Recomputation& recompute);

// Whether layers [begin, end) may be stage s.
bool may_be_stage(const ChainPattern& pattern, const Strategy& strategy, std::int64_t stage, std::int64_t begin,
                  std::int64_t end);

// Every plan that fits, with its time: strategy, stages, seconds.
using VisitPlan = std::function<void(const Strategy&, const std::vector<StagePlan>&, double)>;
void visit_plans(const cost::Job& job, const plan::PlanLimits& limits, std::int64_t devices, const VisitPlan& visit);

enum class Dominated : std::uint8_t { skipped, looked_at };
OracleAnswer try_everything(const cost::Job& job, const plan::PlanLimits& limits, std::int64_t devices,
                            Dominated dominated = Dominated::skipped);

}  // namespace nest::test
