// The rows as files: tables for programs, a page and a picture for people.
#pragma once

#include <span>
#include <string>

#include "simulation_check/comparison.h"

namespace nest {

// Quantile of |simulated / predicted - 1|, 0 <= q <= 1, by the nearest rank.
double difference_quantile(std::span<const ComparedPlan> rows, double q);

struct Mark {
  std::string what;
  std::string reached;
  bool met = false;
};
std::vector<Mark> marks(std::span<const ComparedPlan> rows, std::span<const TopCase> cases);

std::string plans_csv(std::span<const ComparedPlan> rows);
std::string cases_csv(std::span<const TopCase> cases);
std::string difference_svg(std::span<const ComparedPlan> rows);
std::string results_markdown(std::span<const ComparedPlan> rows, std::span<const TopCase> cases);

}  // namespace nest
