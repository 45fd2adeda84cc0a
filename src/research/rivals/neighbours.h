// Steps through the planner's space that walks and searches share: one decision changes, what depends on it is mended.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "base/index.h"
#include "rivals/configuration.h"

namespace nest::rivals {

// Draws that are the same on every platform: the distributions of the standard library are not.
class Lots {
 public:
  explicit Lots(std::uint64_t seed) : engine_(seed) {}

  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(count));
  }
  double fraction() { return real(engine_() >> 11U) * 0x1p-53; }
  bool chance(double probability) { return fraction() < probability; }
  template <class T>
  const T& any(const std::vector<T>& list) {
    return list[at(below(static_cast<std::int64_t>(list.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

// Options of the old stages spread over the new ones, of those that the placement admits: at least one.
std::vector<int> carried_options(const search::PlanSpace& space, const std::vector<int>& options, std::int64_t stages,
                                 const std::vector<int>& admitted);

// Splits that differ from this one in a single degree, to the next larger or smaller one that is legal, or in sp or
// etp.
std::vector<int> neighbouring_splits(const search::PlanSpace& space, int split);

}  // namespace nest::rivals
