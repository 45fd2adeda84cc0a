// What each training framework can be told, and the best plan inside that.
//
// A framework's rules (framework_rules.h) are one predicate, obstacles(): what of a plan it cannot run. Searches for plans
// that it runs ask the same predicate: runnable_limits() hands it to the search, which asks it of every strategy and of
// every treatment of stages (plan::Runnable), so that the optimum of one search is the optimum of the framework. What is
// left, cuts between layers, is no obstacle of plans that a search finds, but of one kind: a V over layers of several
// kinds, which nearest_plan() lists chunk by chunk. DeepSpeed cuts a pipeline by its own rule: one cut per number of stages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exporter/framework_rules.h"
#include "exporter/rank_map.h"
#include "search/planner.h"

namespace nest::exporter {

// What somebody asked for beside the job.
struct Asked {
  std::int64_t per_host = 0;      // devices of one host; 0: as the cluster has them
  std::vector<std::string> set;   // settings of the search, "tp=1..8" (plan/limits.h)
  std::int64_t most_devices = 0;  // 0: all of the cluster
};

// The framework whose habits a stack prices; nothing where it is none of them.
std::optional<launch::Framework> framework_of(const cost::SoftwareStack& stack);

// Whether a stack's prices are those of the framework: it says so itself, or its accounting of memory does.
bool is_own_stack(launch::Framework framework, const cost::SoftwareStack& stack);

// What the framework cannot do, each as the rest of a sentence that starts with its name: "cannot shard stage 3 alone
// (ZeRO 3 there, ZeRO 1 elsewhere)". Empty: it runs the plan as it is. Stages must be sound for the strategy.
std::vector<std::string> obstacles(launch::Framework framework, const cost::Job& job, const Strategy& strategy,
                                   const std::vector<StagePlan>& stages, std::int64_t per_host = 0);

// Limits under which a search finds the best plan without obstacles. They keep `job` by reference. `folds`: plans over
// layers of several kinds that fold the pipeline into a V are found too; they are without obstacles when folded_stages()
// are taken.
plan::PlanLimits runnable_limits(launch::Framework framework, const cost::Job& job, std::int64_t per_host = 0,
                                 bool folds = false);

// What the framework cannot compute in at all, with the same beginning; then `usable_precision` is what it can.
std::string precision_obstacle(launch::Framework framework, Precision precision);
Precision usable_precision(launch::Framework framework, Precision precision);

struct NearestPlan {
  Plan plan;
  bool proven = false;  // no plan that the framework runs is faster
  double wall_s = 0;
};

// The same cuts of a V with their chunks listed, to be priced one by one: where layers are of several kinds its first stage
// holds both ends of the model, and no run of layers says so. All stages are treated as the first. Nothing where there is
// no V, or chunks are listed.
std::optional<std::vector<StagePlan>> folded_stages(const cost::Job& job, const Strategy& strategy,
                                                    const std::vector<StagePlan>& stages);

// Nothing when no plan that the framework can run, inside what was asked for, fits (or, with a time limit, none was
// found). Throws InputError for a setting that is none.
std::optional<NearestPlan> nearest_plan(launch::Framework framework, const cost::Job& job,
                                        const search::SearchSettings& search, search::PriceCache* prices = nullptr,
                                        const Asked& asked = {});

}  // namespace nest::exporter
