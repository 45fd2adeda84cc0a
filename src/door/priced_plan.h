// A plan that somebody brings, with its job, priced anew.
#pragma once

#include "cost/job.h"

namespace nest {

struct PricedPlan {
  Plan plan;
  cost::Job job;
};

// Throws InputError when it cannot be priced.
PricedPlan price_plan(const Plan& plan);

}  // namespace nest
