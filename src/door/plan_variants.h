// Other plans of one strategy, for whoever executes plans: the formula's choice of cuts and sharding is seldom far from the
// fastest to execute, and seldom just that.
#pragma once

#include <optional>
#include <vector>

#include "search/planner.h"
#include "search/space.h"
#include "search/variants.h"

namespace nest {

class PlanVariants {
 public:
  // Both must outlive it.
  PlanVariants(const search::PlanRequest& request, const search::PlanSpace& space) : request_(request), space_(space) {}

  // Executed in no time: more of its variants are worth a look, and in more ways.
  bool is_small(const Plan& plan) const;

  // The same strategy with layers moved between stages, with state sharded otherwise, in all stages or in one, and with the
  // head's gradients at another time: what can be run and fits.
  std::vector<Plan> of(const Plan& plan, search::MovedTo where) const;

  // With state sharded otherwise in all stages alike, where the formula sees a difference.
  std::vector<Plan> sharded_otherwise(const Plan& plan) const;

  // Of a small plan of the least law, as the formula shards it: that law counts no exchanges of state among groups that lie
  // unevenly, so how it shards there says nothing.
  Plan likely_sharded(const Plan& plan) const;

 private:
  std::optional<Plan> evaluated(const Plan& plan, const Strategy& strategy, const std::vector<StagePlan>& stages) const;

  const search::PlanRequest& request_;
  const search::PlanSpace& space_;
};

}  // namespace nest
