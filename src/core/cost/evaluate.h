// The price of one complete plan.
//
// With t_s the time of one micro-batch on stage s (its layers forward and backward, recomputation, exposed collectives,
// and for every boundary the message forward and back), m micro-batches and v virtual stages,
//     T = m * max t_s + (sum t_s - max t_s) / v + max y_s     and what messages take longer while the pipeline fills
// y_s: exposed gradient exchange, optimizer and what else happens once per step. The search optimises exactly this.
// Stages that list their chunks are priced chunk by chunk instead, their step by the order of its passes (chunk_times.h).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cost/job.h"
#include "plan/plan.h"

namespace nest::cost {

// Empty when the strategy and stages are sound for this job (sizes, divisibility, devices, layers covered once, batch);
// else why not.
std::string refuse_strategy(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages);

// Layers over stages as Megatron does it: evenly when they divide, else embedding and head count as one layer each.
std::vector<StagePlan> even_stages(const Job& job, const Strategy& strategy, const Recomputation& recompute, int zero,
                                   std::int64_t zero_degree = 0, bool zero_outer = false);

// The whole plan, priced: stages with their time and memory, the prediction, whether it fits, what was taken for
// granted, and everything that it is for. The strategy must be sound.
Plan evaluate(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages);

// The faster of two plans: head gradients at once, and in the drain, as far as `admitted` says and the stack can.
Plan evaluate_deferring(const Job& job, Strategy strategy, const std::vector<StagePlan>& stages,
                        const std::array<bool, 2>& admitted = {true, true});

}  // namespace nest::cost
