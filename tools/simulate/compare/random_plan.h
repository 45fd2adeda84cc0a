// Plans drawn at random: any preset cluster, dense and mixture models, every schedule, sharding, placement and order of
// layers that makes sense, and many that nobody would choose.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/evaluate.h"

namespace nest {

enum class DrawnFrom : std::uint8_t {
  presets,  // twelve clusters, one of every kind of network
  slow,     // networks.h: deeper pipelines and more micro-batches too
};

struct RandomPlan {
  std::uint32_t seed = 0;
  DrawnFrom from = DrawnFrom::presets;
  cost::Job job;
  Strategy strategy;
  std::vector<StagePlan> stages;
  Plan evaluation;
  std::string model;
};

// Deterministic in the seed; the cluster goes round all of them. The plan is sound and fits in memory.
RandomPlan random_plan(std::uint32_t seed, DrawnFrom from = DrawnFrom::presets);

}  // namespace nest
