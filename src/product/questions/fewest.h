// The fewest devices with which a plan meets a limit.
//
// Let T(n) be the time of the fastest plan that spans at most n devices of one cluster, infinite where there is none. The
// plans of at most n devices are among those of at most n + 1, and what a plan costs depends on the cluster and not on how
// many of its devices were allowed: T does not increase with n. So "T(n) <= limit" is false below some n* and true from
// n* on, and n* is found without asking for every n:
//
//   a try of n that fails   n* > n
//   one whose plan spans s  n* <= s   (s <= n)
//
// The next n is, in turn: what the last plan's device-seconds would need at the limit if devices were used as well as by
// it, s - 1 (which proves s where it fails), and the middle of what is left. Every third try halves what is left, so
// that there are at most about 3 log2(high / low) of them.
//
// Where all devices must be used (PlanLimits::all_devices) the plans of n devices are not among those of n + 1 and nothing
// is known of T: there every n is tried, from below.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace nest::questions {

struct Corner {
  std::int64_t devices = 0;  // that the plan spans
  double step_s = 0;
};

enum class CountOrder : std::uint8_t {
  nested,  // plans of n devices are plans of n + 1
  each,    // they are not
};

struct Fewest {
  std::optional<Corner> best;  // nothing: no n up to `high` meets the limit, or it was stopped before one did
  bool proven = false;         // no smaller n does; where there is none, that there is none
};

// The fastest plan of at most so many devices, where it takes at most the limit; it spans at most so many devices.
using TryDevices = std::function<std::optional<Corner>(std::int64_t most_devices)>;

// Of low … high, where no n below `low` is known to meet the limit. `limit_s` guides the tries and decides nothing.
// `is_over` ends it: what was found stays, unproven; a try that came back empty while time ran out says nothing.
Fewest fewest_devices(
    std::int64_t low, std::int64_t high, double limit_s, CountOrder order, const TryDevices& fastest,
    const std::function<bool()>& is_over = [] { return false; });

}  // namespace nest::questions
