// What the sets say together: how each mark stands, how well plans are ranked, and how often a plan would run out of
// memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accuracy/error_bars.h"
#include "accuracy/set.h"
#include "accuracy/unseen.h"

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

// Part of the published runs of one file.
struct FilePart {
  std::string file;
  Part part;
};

// Runs that ran and that nest says do not fit.
struct RefusedRun {
  std::string id;
  double over = 0;  // as RunFacts
  bool strict = true;
};
struct Refusals {
  std::string file;  // empty: all of them
  std::size_t strict = 0, strict_refused = 0;
  std::size_t all = 0, all_refused = 0;
  std::vector<RefusedRun> runs;  // the largest excess first

  double strict_share() const {
    return strict == 0 ? 0 : static_cast<double>(strict_refused) / static_cast<double>(strict);
  }
  double share() const { return all == 0 ? 0 : static_cast<double>(all_refused) / static_cast<double>(all); }
};

// Two runs that differ in one thing: what the second takes of the first, measured and predicted.
struct Ratio {
  std::string group;
  std::string quantity;  // "time", "memory"
  std::string from, to;  // the changes
  Point point;
  bool strict = true;
};

// Strict runs of one release on one device.
struct Slice {
  std::string release;  // empty: all releases
  std::string device;
  Errors dense, mixtures;
};

struct Unexpressed {
  std::string name;
  std::size_t runs = 0;
};

struct Summary {
  std::vector<Mark> marks;
  std::vector<Part> parts;
  std::vector<Sweep> sweeps;
  Surprises surprises;
  std::vector<FilePart> files;
  std::vector<Refusals> refusals;  // per file, then all where there are several files
  std::vector<Ratio> ratios;
  std::vector<Slice> slices;
  std::vector<Unexpressed> not_expressed;  // the most frequent first
  ErrorBars error_bars;
  UnseenSources unseen;
};

// The parts of the summary that concern published runs only.
void summarise_runs(const std::vector<Set>& sets, Summary& summary);

Summary summarise(const std::vector<Set>& sets);

// The set of that name, or nothing.
const Set* find_set(const std::vector<Set>& sets, const std::string& name);

}  // namespace nest::accuracy
