// Integers of the search. Times are picoseconds, sizes bytes, both int64; every real number is rounded once, when a
// table or a line is made, so that equal layers have exactly equal costs and sums do not depend on the order of
// summation.
#pragma once

#include <cstdint>
#include <limits>

namespace nest::search {

__extension__ using Int128 = __int128;

// Larger than any time that occurs (46 days), small enough to be added twice without overflow.
inline constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max() / 2;

constexpr std::int64_t floor_div(Int128 numerator, Int128 denominator) {
  Int128 quotient = numerator / denominator;
  if (numerator % denominator != 0 && (numerator < 0) != (denominator < 0)) --quotient;
  return quotient > kForever ? kForever : quotient < -kForever ? -kForever : static_cast<std::int64_t>(quotient);
}

// Time of moving bytes: nothing for no bytes, else alpha + floor(beta * bytes / 2^20). Nondecreasing in alpha, beta and
// bytes.
struct Line {
  std::int64_t alpha_ps = 0;
  std::int64_t beta_ps_per_mib = 0;

  std::int64_t at(std::int64_t bytes) const {
    if (bytes == 0) return 0;
    return alpha_ps + static_cast<std::int64_t>((static_cast<Int128>(beta_ps_per_mib) * bytes) >> 20);
  }
  bool operator==(const Line&) const = default;
};

}  // namespace nest::search
