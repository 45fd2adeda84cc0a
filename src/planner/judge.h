// The independent judge's opinion of a plan, in words.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "model/graph.h"
#include "plan/plan.h"

namespace nest {

// One line per violation; empty for a sound plan.
std::vector<std::string> judge_plan(const Plan& plan, const Model& model, const Cluster& cluster);

}  // namespace nest
