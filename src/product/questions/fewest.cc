#include "questions/fewest.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace nest::questions {
namespace {

// Devices that take so many device-seconds within the limit.
std::int64_t devices_for(const Corner& corner, double limit_s, std::int64_t low, std::int64_t high) {
  const double devices = std::ceil(static_cast<double>(corner.devices) * corner.step_s / limit_s);
  return static_cast<std::int64_t>(std::clamp(devices, static_cast<double>(low), static_cast<double>(high)));
}

}  // namespace

Fewest fewest_devices(std::int64_t low, std::int64_t high, double limit_s, CountOrder order, const TryDevices& fastest,
                      const std::function<bool()>& is_over) {
  Fewest found;
  if (order == CountOrder::each) {
    for (std::int64_t n = low; n <= high; ++n) {
      found.best = fastest(n);
      if (found.best) break;
      if (is_over()) return found;
    }
    found.proven = true;
    return found;
  }
  // Upwards until a try meets the limit.
  for (std::int64_t n = std::min(high, 2 * low); low <= high && !found.best; n = std::min(high, 2 * n)) {
    found.best = fastest(n);
    if (!found.best && is_over()) return found;
    if (!found.best) low = n + 1;
  }
  for (int turn = 0; found.best && low < found.best->devices; ++turn) {
    const std::int64_t last = found.best->devices - 1;
    const std::int64_t n = turn % 3 == 0   ? devices_for(*found.best, limit_s, low, last)
                           : turn % 3 == 1 ? last
                                           : low + (last - low) / 2;
    const std::optional<Corner> next = fastest(n);
    if (!next && is_over()) return found;
    if (next) {
      NEST_CHECK(next->devices <= n, "a plan of at most n devices spans no more");
      found.best = next;
    } else {
      low = n + 1;
    }
  }
  found.proven = true;
  return found;
}

}  // namespace nest::questions
