// Claims of a plan that follow from other claims, from the device or from the model: what its stages take, its memory,
// its arithmetic, its bounds. Internal to check; the plan's shape is sound.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "check/check.h"

namespace nest::check {

using Report = std::function<void(ViolationCode, std::string)>;

// Relative; claims are printed with full precision.
inline constexpr double kTolerance = 1e-6;
bool differs(double claimed, double expected);

// Per stage: no less than the floor, live tensors on the device, what is needed too where the plan claims to fit; no more
// alive than is held; micro-batches in flight as the schedule says. Of the plan: its peak is the fullest stage's, and it fits when every stage does.
void judge_memory_claims(const Plan& plan, const cluster::Cluster& cluster, const std::vector<double>& floors,
                         const Report& report);

// Parts of a stage's time sum to its total: forward and backward hold what is waited for of tensor, context and expert
// exchanges, which only groups of several ranks have. The breakdown is that of the slowest stage, once per micro-batch.
void judge_time_claims(const Plan& plan, const Report& report);

// FLOP/s are the model's, MFU is their share of the peak.
void judge_work_claims(const Plan& plan, const Prediction& claimed, const model::Model& model,
                       const cluster::Cluster& cluster, const Report& report);

// Nothing is faster than the bounds that are claimed, and the same number is the same wherever it stands.
void judge_search_claims(const Plan& plan, const Report& report);

// The model's number of parameters. Frozen ones count, adapters and depths that predict further tokens do not.
void judge_parameters(const Plan& plan, const model::Model& model, const Report& report);

}  // namespace nest::check
