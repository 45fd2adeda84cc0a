// Integer arithmetic that refuses to wrap. Sizes come from users' files; a lying one must end in a message, not in a
// negative number of bytes.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace nest {

// Product of non-negative factors; throws InputError when it does not fit in 63 bits.
std::int64_t checked_product(std::initializer_list<std::int64_t> factors);

// Sum of non-negative terms; throws InputError when it does not fit in 63 bits.
std::int64_t checked_sum(std::initializer_list<std::int64_t> terms);

// Smallest integer that is not below numerator / denominator, for numerator >= 0 and denominator > 0.
constexpr std::int64_t ceil_div(std::int64_t numerator, std::int64_t denominator) {
  return numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
}

// Smallest multiple of `step` that is not below `value`.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) { return ceil_div(value, step) * step; }

}  // namespace nest
