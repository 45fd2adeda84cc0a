// The numbers behind the drawings of a plan's page, for those who draw them elsewhere.
#pragma once

#include "cost/job.h"
#include "plan/plan.h"
#include "report/json.h"

namespace nest::html {

// The members of schema nest.pipeline/1, without the schema itself. The plan is priced.
//
// Cells are [begin_s, end_s, pass, micro-batch, chunk], pass 0 forward, 1 backward, 2 gradients of weights. What a stage
// holds over time is base_bytes + live · unit_bytes, `live` [second, chunks of micro-batches in flight]: a chunk is held
// from the begin of its forward pass to the end of its last backward one, and unit_bytes is such that the fullest moment
// is the plan's own memory.
report::Json pipeline_drawing(const cost::Job& job, const Plan& plan);

// The members of nest.placement/1. Runs are [first device, end, stage, replica], stage -1 for idle ones.
report::Json placement_drawing(const cost::Job& job, const Plan& plan);

}  // namespace nest::html
