// The schedules that torchtitan is told by name, by its names and ours.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"
#include "nest/strategy.h"

namespace nest::launch {

struct TitanSchedule {
  Schedule kind;
  const char* name;
};

inline constexpr std::array kTitanSchedules = std::to_array<TitanSchedule>({
    {Schedule::one_f_one_b, "1F1B"},
    {Schedule::gpipe, "GPipe"},
    {Schedule::interleaved, "Interleaved1F1B"},
    {Schedule::zbv, "ZBVZeroBubble"},
    {Schedule::dualpipev, "DualPipeV"},
});

inline const TitanSchedule* titan_schedule(Schedule kind) {
  for (const TitanSchedule& known : kTitanSchedules) {
    if (known.kind == kind) return &known;
  }
  return nullptr;
}

// Whatever the case of its letters, as there.
inline const TitanSchedule* titan_schedule(std::string_view name) {
  for (const TitanSchedule& known : kTitanSchedules) {
    if (to_lower(known.name) == to_lower(name)) return &known;
  }
  return nullptr;
}

// Micro-batches of a group of Interleaved1F1B: m of them in ⌊m / p⌋ rounds of one size (PyTorch's
// ScheduleInterleaved1F1B refuses numbers that do not divide). 0 where they do not, or are fewer than stages.
inline std::int64_t titan_group(std::int64_t stages, std::int64_t micro_batches) {
  const std::int64_t rounds = micro_batches / stages;
  return rounds > 0 && micro_batches % rounds == 0 ? micro_batches / rounds : 0;
}

}  // namespace nest::launch
