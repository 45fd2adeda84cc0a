// What the sets say together: how each mark stands, how well plans are ranked, and how often a plan would run out of
// memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accuracy/set.h"

namespace nest::accuracy {

// A figure that was aimed at, and what was reached.
struct Mark {
  std::string what;
  std::string measure;  // "mean error", "bias", "rank correlation", …
  std::size_t rows = 0;
  double aim = 0;
  double reached = 0;
  bool at_least = false;  // larger is better; else smaller
  bool percent = true;    // shown in percent
  bool met() const { return at_least ? reached >= aim : (reached < 0 ? -reached : reached) <= aim; }
};

// Part of the published runs.
struct Part {
  std::string name;
  Errors errors;
};

struct Sweep {
  std::string source;
  Rank all;
  Rank apart;  // only pairs measured more than kApart apart
};
inline constexpr double kApart = 0.05;

// Readings whose real use exceeds the prediction with its margin.
struct Surprises {
  std::size_t readings = 0;
  std::size_t surprises = 0;
  double lowest_margin = 0;  // of the stacks concerned
  double highest_margin = 0;
  double largest_excess = 0;  // of the measured over the predicted, as a fraction
};

struct Summary {
  std::vector<Mark> marks;
  std::vector<Part> parts;
  std::vector<Sweep> sweeps;
  Surprises surprises;
};

Summary summarise(const std::vector<Set>& sets);

// The set of that name, or nothing.
const Set* find_set(const std::vector<Set>& sets, const std::string& name);

}  // namespace nest::accuracy
