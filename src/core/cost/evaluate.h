// The price of one complete plan.
//
// With t_s the time of one micro-batch on stage s (its layers forward and backward, recomputation, exposed collectives,
// and for every boundary the message forward and back), m micro-batches and v virtual stages,
//     T = m * max t_s + (sum t_s - max t_s) / v + max y_s
// y_s: exposed gradient exchange, optimizer and what else happens once per step. The search optimises exactly this.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost/job.h"
#include "cost/memory.h"
#include "plan/plan.h"

namespace nest {

struct Evaluation {
  std::vector<StagePlan> stages;  // with time and memory filled in
  std::vector<MemoryEstimate> memory;
  Prediction prediction;
  bool fits = true;
  std::string misfit;  // "stage 0 needs 91.3 GiB of 79.2 GiB (activations 52.1 GiB …)" when it does not
  std::vector<std::string> assumptions;  // what was taken for granted, to be printed
  std::vector<std::string> measured;     // layers or operators whose numbers come from a profile
};

// Empty when the strategy and stages are sound for this job (sizes, divisibility, devices, layers covered once, batch);
// else why not.
std::string refuse_strategy(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages);

// Layers over stages as Megatron does it: evenly when they divide, else embedding and head count as one layer each.
std::vector<StagePlan> even_stages(const Job& job, const Strategy& strategy, Recompute recompute, int zero,
                                   std::int64_t zero_degree = 0);

// The strategy must be sound.
Evaluation evaluate(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages);

}  // namespace nest
