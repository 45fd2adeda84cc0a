// What would help: for every resource of a cluster, what more of it buys.
//
// A resource is what somebody can buy or mend: FLOP/s, size and bandwidth of the memory, bandwidth and latency of every level of
// the network that the job uses, host time of a launch. Each is made better alone by some percent (10: rates and sizes times
// 1.1, latencies and host time times 0.9), and the step is priced twice:
//     re-planned   the fastest plan there, which may be the one that was best before
//     kept         the plan that was best before, with its stages
// `saves` are shares of the step, 1 - t' / t. A share over the percent is what a percent more is worth (a shadow price).
//
// Where every resource that takes time is made better at once, a step with the same plan takes 1 / 1.1 … 0.9 of the time, less
// what no resource shortens (constants of a step). The shares of single resources do not add up to that: work that is hidden behind
// other work appears when the other gets shorter, and two that wait for each other help only together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nest/plan.h"
#include "nest/style.h"

namespace nest {

struct ResourceEffect {
  std::string key;   // "flops", "memory", "memory_bandwidth", "unit.bandwidth", "unit.latency", "host_time"; "all"
  std::string name;  // for people
  std::string before, after;     // "50.0 GB/s"; empty for "all"
  double replanned_s = 0;        // a step
  std::optional<double> kept_s;  // nothing where the plan cannot be run there
  std::string strategy;          // of the plan there, where it is another
  double saves = 0;              // of the step, re-planned
  std::optional<double> saves_kept;
};

struct Sensitivity {
  double percent = 10;
  PlanJudge judge = PlanJudge::simulation;
  double step_s = 0;                    // of the fastest plan, without preference for simple ones
  std::string strategy;                 // of that plan
  std::vector<ResourceEffect> effects;  // in a fixed order: device, network from the inside, host
  ResourceEffect together;              // all of them at once
  // The one that buys most, an index of effects.
  std::size_t binding = 0;
};

}  // namespace nest
