// Numbers that an option takes.
#pragma once

#include <cstdint>
#include <string>

namespace nest {

struct IntegerRange {
  std::int64_t low = 1;
  std::int64_t high = 1;

  bool holds(std::int64_t value) const { return value >= low && value <= high; }
};

inline constexpr IntegerRange kDevices{1, std::int64_t{1} << 24};
inline constexpr IntegerRange kBatches{1, std::int64_t{1} << 32};
inline constexpr IntegerRange kBatchTokens{1, std::int64_t{1} << 50};
inline constexpr IntegerRange kMtpLayers{0, 64};
inline constexpr IntegerRange kPercent{0, 100};
inline constexpr IntegerRange kSequences{1, std::int64_t{1} << 24};
inline constexpr IntegerRange kMicroBatches{1, std::int64_t{1} << 16};  // of nest show
inline constexpr IntegerRange kRanks{1, std::int64_t{1} << 16};
inline constexpr IntegerRange kThreads{1, 1024};
inline constexpr IntegerRange kTop{1, 1000};
inline constexpr IntegerRange kSteps{1, 1000};
inline constexpr IntegerRange kRuns{1, 1000};
inline constexpr IntegerRange kSeeds{1, std::int64_t{1} << 32};
inline constexpr IntegerRange kLostNodes{1, 64};
inline constexpr IntegerRange kMultiples{1, std::int64_t{1} << 20};
inline constexpr IntegerRange kPerHost{1, std::int64_t{1} << 20};
inline constexpr IntegerRange kCores{1, std::int64_t{1} << 12};

// Throws InputError that says what `text`, the value of the option, is not. `name` is marked (nest/option.h) or a flag.
[[noreturn]] void fail_range(const std::string& name, const std::string& text, const IntegerRange& range);

}  // namespace nest
