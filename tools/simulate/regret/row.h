// What came out of one case, kept as a line of JSON so that an interrupted run goes on where it stopped, and the page.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "simulation_check/regret_cases.h"

namespace nest {

// How hard the others are looked for.
struct RegretEffort {
  std::int64_t top = 100;         // kinds of plans that the formula lists
  std::int64_t neighbours = 100;  // drawn, of nest's plan and of the best that is known
  double time_limit_s = 0;        // per search; 0: none
  bool operator==(const RegretEffort&) const = default;
};

struct RegretRow {
  RegretCase of;
  RegretEffort effort;
  std::string refused;     // why there is no plan; empty: there is one
  bool stopped = false;    // nest's search, by the limit
  double predicted_s = 0;  // by the formula
  double simulated_s = 0;  // nest's plan, executed
  double formula_s = 0;    // the formula's plan, executed
  double least_s = 0;      // no plan below; 0: not worked out
  double search_s = 0;     // of processor time
  double best_s = 0;       // of all
  double rival_s = 0;      // the fastest of the rivals'; 0: they have none
  std::string best_of;     // whose
  std::string strategy, best_strategy;
  std::int64_t others = 0;    // plans that nest's was held against
  std::int64_t executed = 0;  // of these; the lower bounds of the rest exceed the best
  bool noisy = false;         // simulated_s and best_s are means with noise

  double regret() const { return simulated_s / best_s - 1; }
};

std::string to_line(const RegretRow& row);
// Lines that cannot be read (the last one of a run that was killed) are left out. By the case's id.
std::map<std::string, RegretRow> read_rows(const std::string& text);

// `grid`: how many cases there are to draw from.
std::string regret_page(const std::vector<RegretRow>& rows, std::size_t grid, std::uint32_t seed);

}  // namespace nest
