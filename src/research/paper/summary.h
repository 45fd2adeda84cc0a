// Numbers over many points.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paper/record.h"

namespace nest::paper {

// Averages that the NEST paper (2026) gives of rival over nest, time of a step; 0: none.
struct Published {
  const char* planner;
  double fat_tree, spine_leaf;
};
std::optional<Published> published(const std::string& planner);

struct Tally {
  int points = 0;   // where nest has a plan
  int plans = 0;    // of those, where the planner has one
  int as_fast = 0;  // within a thousandth of nest
  double mean = 0;  // geometric, of the executed time of a step over nest's; 0: no plan anywhere
  double largest = 0;
  std::string largest_id;
  double predicted_mean = 0;  // of the formula's times
  double longest_search_s = 0, median_search_s = 0;
};
// Over the points of a group, or of all that are not as published when it is empty; those of several groups count once.
Tally tally(const Records& records, const std::string& planner, const std::string& group = {});

// Points at which somebody's plan is executed more than 1 % faster than nest's.
std::vector<std::string> lost_points(const Records& records);

// Names of what differs between two strategies as PlannerResult writes them: "pp, vpp, recompute".
std::string differences(const std::string& ours, const std::string& theirs);

std::vector<std::string> rival_names(const Records& records);

}  // namespace nest::paper
