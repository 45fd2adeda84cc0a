// Whether work grows with its input and no faster.
#pragma once

#include <ctime>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>

namespace nest::test {

// Processor time of work(4 n) over that of work(n), the least of three runs each: about 4 where it is linear, 16 where it is
// quadratic. `n` is chosen by doubling, from `least` on, until work(n) takes 5 ms, so that the clock can tell.
inline double growth(const std::function<void(std::size_t)>& work, std::size_t least, std::size_t most) {
  const auto seconds = [&](std::size_t n) {
    double fastest = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 3; ++run) {
      const std::clock_t begin = std::clock();
      work(n);
      fastest = std::min(fastest, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return fastest;
  };
  std::size_t n = least;
  while (seconds(n) < 5e-3 && 8 * n <= most) n *= 2;
  return seconds(4 * n) / std::max(1e-4, seconds(n));
}

inline constexpr double kLinear = 8;  // less than that is

}  // namespace nest::test
