#include "base/checked.h"

#include "base/error.h"

namespace nest {

std::int64_t checked_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      throw InputError("the sizes given multiply to more than 2^63: no such model or run exists");
    }
  }
  return product;
}

std::int64_t checked_sum(std::initializer_list<std::int64_t> terms) {
  std::int64_t sum = 0;
  for (const std::int64_t term : terms) {
    if (__builtin_add_overflow(sum, term, &sum)) {
      throw InputError("the sizes given add up to more than 2^63: no such model or run exists");
    }
  }
  return sum;
}

}  // namespace nest
