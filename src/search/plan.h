// Keys, plans and what a search reports.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/numbers.h"

namespace nest::search {

// Everything but the cuts and the options. Keys are totally ordered; equal times are broken by this order.
struct Key {
  int split = 0;        // index into Problem::splits
  int micro_batch = 0;  // index into Problem::micro_batches
  std::int64_t stages = 0;
  int schedule = 0;  // index into Problem::schedules
  std::int64_t replicas = 0;
  std::int64_t inner_replicas = 0;
  std::int64_t pitch = 0;  // devices; stages * inner_replicas * a when there is one pipeline only

  auto operator<=>(const Key&) const = default;
};

// One choice per stage, packed; the smaller code is preferred at equal cost (less recomputation, then lower ZeRO
// stage).
struct StageOption {
  int recompute = 0;  // 0 none, 1 selective, 2 full
  int zero = 0;       // 0 .. 3
  int group = 0;      // index into SyncClass::group; 0 for ZeRO stage 0

  static constexpr int kCodes = 24;
  int code() const { return (recompute * 4 + zero) * 2 + group; }
  static StageOption from_code(int code) { return {code / 8, code / 2 % 4, code % 2}; }
  bool operator==(const StageOption&) const = default;
};

struct Plan {
  Key key;
  std::vector<std::int64_t> cuts;  // 0 = cuts[0] < ... < cuts[stages] = n
  std::vector<StageOption> options;
  std::int64_t time_ps = 0;
  std::int64_t devices = 0;  // occupied, from the first to the last
  std::int64_t micro_batches = 0;
};

// Value that is minimised: picoseconds, or picoseconds * devices.
using Score = Int128;

// Why a part of the space was closed.
enum class Rule : std::uint8_t {
  work,        // total work over all devices (T1)
  arithmetic,  // longest run, sums and traffic of the whole chain (T2, T6)
  stages,      // relaxed partition for a number of stages (T7)
  range,       // the same with the inner replicas in one octave
  plateau,     // relaxed partition for one number of micro-batches (T4)
  tail,        // all larger numbers of micro-batches (T8)
  hops,        // exact hops of one placement (T5)
  placement,   // relaxed partition of one placement, several numbers of replicas (T9)
  leaf,        // exact partition of one key
  count
};

const char* to_string(Rule rule);

struct Counters {
  std::int64_t keys = 0;                                                     // keys of the space, not counting pitches
  std::int64_t opened = 0;                                                   // nodes taken from the queue
  std::int64_t relaxed = 0;                                                  // relaxed partition problems solved
  std::int64_t leaves = 0;                                                   // exact partition problems solved
  std::int64_t passes = 0;                                                   // dynamic-programming passes of both
  std::int64_t priced = 0;                                                   // (split, micro-batch) pairs priced
  std::array<std::int64_t, static_cast<std::size_t>(Rule::count)> closed{};  // nodes closed, per rule

  void add(const Counters& other);
};

// When nothing fits: the key and stage that come closest, every option at its most frugal.
struct Shortfall {
  Key key;
  std::int64_t stage = 0;
  std::int64_t first_layer = 0, last_layer = 0;  // of that stage, [first, last)
  StageOption option;
  std::int64_t needed_bytes = 0;
  std::int64_t missing_bytes = 0;
};

enum class Outcome : std::uint8_t { optimal, infeasible, limit };

struct Result {
  Outcome outcome = Outcome::limit;
  std::vector<Plan> plans;  // best first, at most as many as asked for, one per key; exact when outcome is optimal
  Score lower_bound = 0;    // no key outside `plans` and no better version of these scores less; = best when optimal
  double gap = 0;           // best / lower_bound - 1; infinite without a plan
  Counters counters;
  std::optional<Shortfall> shortfall;
  double wall_s = 0;
};

}  // namespace nest::search
