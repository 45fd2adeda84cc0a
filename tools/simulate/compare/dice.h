// Draws that are the same on every platform: the distributions of the standard library are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace nest {

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}

  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(count));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <typename List>
  auto pick(const List& list) {
    return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(list.size())))];
  }
  std::int64_t divisor(std::int64_t number) {
    std::vector<std::int64_t> found;
    for (std::int64_t d = 1; d <= number; ++d) {
      if (number % d == 0) found.push_back(d);
    }
    return pick(found);
  }
  template <typename List>
  void shuffle(List& list) {
    for (std::size_t k = list.size(); k > 1; --k) {
      std::swap(list[k - 1], list[static_cast<std::size_t>(below(static_cast<std::int64_t>(k)))]);
    }
  }

 private:
  std::mt19937 engine_;
};

}  // namespace nest
