#include "questions/largest.h"

#include <algorithm>

#include "base/error.h"

namespace nest::questions {
namespace {

// Of 1 … high the last number that holds, where those that hold come first; 0: none. Nothing: it was stopped. `start` is
// asked first, then twice or half as much until it is between two of them.
std::optional<std::int64_t> last_that_holds(std::int64_t start, std::int64_t high, const TryValue& holds,
                                            const IsOver& is_over, std::int64_t& known) {
  known = 0;
  if (high < 1) return 0;
  std::int64_t low = 0, over = high + 1;  // low holds, over does not
  for (std::int64_t next = std::clamp<std::int64_t>(start, 1, high); over - low > 1;) {
    if (holds(next)) {
      known = low = next;
    } else {
      if (is_over()) return std::nullopt;
      over = next;
    }
    next = over > high ? std::min(high, 2 * low) : low == 0 ? over / 2 : low + (over - low) / 2;
    next = std::clamp(next, low + 1, std::max(low + 1, over - 1));
  }
  return low;
}

}  // namespace

Largest largest_value(const ValueGrid& grid, std::int64_t start, const TryValue& bound, const TryValue& fits,
                      const IsOver& is_over) {
  NEST_CHECK(grid.step >= 1 && grid.round % grid.step == 0, "values are multiples of a step");
  const std::int64_t high = grid.high / grid.step * grid.step;
  std::int64_t known = 0, rounds = 0;
  if (high >= grid.round) {
    const auto last = last_that_holds(
        start / grid.round, high / grid.round, [&](std::int64_t k) { return bound(k * grid.round); }, is_over, known);
    if (!last) {
      // Stopped: what the bound said may be a plan.
      const bool found = known > 0 && fits(known * grid.round);
      return {found ? std::optional(known * grid.round) : std::nullopt, false};
    }
    rounds = *last;
  }
  for (std::int64_t value = std::min(high, (rounds + 1) * grid.round - grid.step); value > 0; value -= grid.step) {
    if (fits(value)) return {value, true};
    if (is_over()) return {};
  }
  return {std::nullopt, true};
}

LargestProduct largest_product(const std::vector<std::int64_t>& counts, std::int64_t high,
                               const std::function<bool(std::int64_t count, std::int64_t each)>& fits,
                               const IsOver& is_over) {
  LargestProduct best;
  for (const std::int64_t count : counts) {
    const std::int64_t first = best.product() / count + 1, most = high / count;
    if (first > most) continue;
    if (!fits(count, first)) {
      if (is_over()) return best;
      continue;
    }
    std::int64_t known = 0;
    const auto more = last_that_holds(
        1, most - first, [&](std::int64_t k) { return fits(count, first + k); }, is_over, known);
    best.count = count;
    best.each = first + more.value_or(known);
    if (!more) return best;
  }
  best.proven = true;
  return best;
}

}  // namespace nest::questions
