// Traffic of several jobs on shared links, played through as fluid: the rates of flows that share links are max-min
// fair (every flow gets as much as it can without taking from one that has less), and change only when a flow starts or
// ends.
//
// A task is a sequence of equal steps; a step waits for `latency_s`, then moves `bytes` on every link it loads. Each
// entry of `loads` gives how many equal flows the task has on that link; they all run at one rate. A task starts at
// `start_s`, and not before all tasks in `after` have ended. Cost: O(events · active tasks · links), with one event per
// step of every task.
//
// This prices what formulas cannot: jobs that start at different times, differ in size, or follow each other in chunks.
// In the fast path use `overlapped_s`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nest {

struct LinkLoad {
  std::size_t link = 0;
  double flows = 1;
};

struct FluidTask {
  double start_s = 0;
  std::int64_t steps = 1;
  double latency_s = 0;  // of each step
  double bytes = 0;      // of each flow in each step
  std::vector<LinkLoad> loads;
  std::vector<std::size_t> after;
};

// When each task ends.
std::vector<double> play(std::span<const double> link_bytes_per_s, std::span<const FluidTask> tasks);

// A bound of the same, in O(jobs · links), within 5% for jobs that are not in lockstep:
// the last one ends no earlier than the slowest would alone, and than the busiest link has carried everything, which
// takes from the first start to the drain of its bytes plus the latencies of the job that has most of them.
double overlapped_s(std::span<const double> link_bytes_per_s, std::span<const FluidTask> tasks);

}  // namespace nest
