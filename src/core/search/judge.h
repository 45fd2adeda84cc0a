// The independent judge (check/check.h) over every answer of the search.
#pragma once

#include <vector>

#include "base/error.h"
#include "check/check.h"
#include "cost/job.h"
#include "plan/plan.h"

namespace nest::search {

// A plan of the search that the judge does not accept: a bug, with the plan to show for it.
class UnsoundPlan : public InternalError {
 public:
  UnsoundPlan(Plan plan, std::vector<check::Violation> violations);

  const Plan& plan() const { return plan_; }
  const std::vector<check::Violation>& violations() const { return violations_; }

 private:
  Plan plan_;
  std::vector<check::Violation> violations_;
};

// What the job's software keeps per parameter at least.
check::StateFloor state_floor(const cost::Job& job);

// Throws UnsoundPlan.
void require_sound(const Plan& plan, const cost::Job& job);

}  // namespace nest::search
