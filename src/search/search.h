// Exact plan search: the K best keys of a problem with the best plan of each, and a proof that nothing is better.
//
// Best-first over the tree of tree.h. Nodes are opened in rounds whose size does not depend on the number of threads,
// with the cutoff frozen during a round, and their results are merged in the order in which they were taken: plans,
// bounds and counters are the same for any number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

#include "search/plan.h"
#include "search/problem.h"

namespace nest::search {

struct Progress {
  std::int64_t opened = 0;
  std::optional<Score> best;
  Score lower_bound = 0;
  double elapsed_s = 0;
};

struct Settings {
  int top = 1;      // K
  int threads = 1;  // 0: one per core
  double time_limit_s = std::numeric_limits<double>::infinity();
  const std::atomic<bool>* stop = nullptr;        // polled; true ends the search like a time limit
  std::function<void(const Progress&)> progress;  // called from the calling thread, at most ten times a second
  std::optional<Score> known;                     // only plans with at most this score are wanted
  // For experiments and tests; results do not depend on them.
  bool quick = true;  // heuristic plans before the search
  bool dive = true;   // exact plans early in the search
};

// Throws InputError for a problem that contradicts itself.
Result find_plans(const Problem& problem, const Settings& settings);

}  // namespace nest::search
