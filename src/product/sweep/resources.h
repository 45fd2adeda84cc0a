// What a cluster's devices, links and hosts could have more of, as changes of its documents (variant.h).
#pragma once

#include <string>
#include <vector>

#include "cost/job.h"
#include "sweep/variant.h"

namespace nest::sweep {

struct Resource {
  std::string key;   // "flops", "memory", "memory_bandwidth", "LEVEL.bandwidth", "LEVEL.latency", "host_time"
  std::string name;  // for people: "bandwidth of level unit"
  std::string before, after;
  std::vector<Change> cluster, device, stack;
};

// Resources of the job's cluster, each better by a share: rates and sizes times 1 + share, latencies and host time times
// 1 - share. Levels that the job does not reach are left out, and so are latencies that are as low as those of the level
// inside: a farther switch is not closer. Oversubscription divides the bandwidth of its level: it is the same resource.
std::vector<Resource> resources_of(const cost::Job& job, double share);

// The job with some of its resources changed. What changes the same twice is an error of the caller.
cost::Job changed_job(const cost::Job& job, const std::vector<const Resource*>& resources);

}  // namespace nest::sweep
