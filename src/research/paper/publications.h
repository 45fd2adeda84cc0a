// What every planner could choose from in its publication, as settings of ours: the second evaluation, "as published".
//
// The inputs of the NEST paper's artifact (its solver's instances) say what its own planner, and those that were run on
// the same graphs, chose from: replicas, stages and cuts of 1F1B; tensor widths 1 to 8 of BERT, 4 and 8 of GPT-3, 1 of
// the others; experts over 4 ranks; recomputation of everything but for BERT; no sharded state, SGD.
#pragma once

#include <string>
#include <vector>

#include "paper/points.h"

namespace nest::paper {

struct Publication {
  const char* planner;
  const char* says;  // what it is restricted to, in words
};

// Those for which the paper gives a ratio, nest first.
const std::vector<Publication>& publications();

// What a planner admits at a point. `deeper` doubles the stages of manual's fixed degrees so many times.
plan::PlanLimits publication_limits(const std::string& planner, const Point& point, int deeper = 0);

}  // namespace nest::paper
