// What to expect of a plan where the formula is wrong about the network.
//
// A plan is executed once, all that is alike in lockstep (simulate/step_judge.h). Where that takes what the formula says,
// the formula stands. Where not, the expectation is the mean of three executions with noise and every replica for
// itself: in lockstep replicas that share a link wait for each other longer than they do when they drift apart.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "cost/job.h"
#include "nest/plan.h"
#include "simulate/step_judge.h"

namespace nest {

// Times that differ by less are the same: contended pipelines amplify the smallest differences.
inline constexpr double kWorth = 0.01;

// Where collectives were measured, their tables are the judge: execution moves bytes over links, and knows no tables.
bool can_execute(const cost::Job& job);

// How much longer a step takes with noise; 1 where that is too much to execute.
double noise_factor(const simulate::StepJudge& judge, const cost::Job& job, const Plan& plan);
bool is_noise_executed(const cost::Job& job, const Plan& plan);
inline constexpr std::int64_t kNoisyRuns = 3;

// What to expect of a plan that fits when it is executed, whether or not the formula says the same; nothing where it is
// too large to execute, measured collectives leave nothing to execute, or `stop` became true.
std::optional<Prediction> executed_prediction(const cost::Job& job, const std::atomic<bool>* stop, const Plan& plan);

// Seconds of a step of it, with noise or without; nothing likewise.
std::optional<double> executed_seconds(const cost::Job& job, const std::atomic<bool>* stop, const Plan& plan,
                                       bool noisy);

// Fills Plan::executed and Plan::contended. `known_s`: what a step is known to take when it is executed; 0: to be found
// out. Plans that do not fit or are too large to execute have none. Where `stop` becomes true or `end` comes, a known
// time is divided as the formula divides it, and nothing is contended.
using TimePoint = std::chrono::steady_clock::time_point;
void expect_execution(const cost::Job& job, double known_s, const std::atomic<bool>* stop, Plan& plan,
                      TimePoint end = TimePoint::max());

}  // namespace nest
