// The schedules that torchtitan is told by name, by its names and ours, and those that it reads from a file.
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

// Orders that it has no name for: read from a file (pipeline_parallel_schedule_csv). The name beside it then says only
// which parts of the model a rank holds: every p-th one, or those of a V.
inline constexpr std::array kTitanFiles = std::to_array<TitanSchedule>({
    {Schedule::zb_h1, "Interleaved1F1B"},
    {Schedule::v_half, "ZBVZeroBubble"},
    {Schedule::v_min, "ZBVZeroBubble"},
});

inline const TitanSchedule* titan_file(Schedule kind) {
  for (const TitanSchedule& known : kTitanFiles) {
    if (known.kind == kind) return &known;
  }
  return nullptr;
}

// What nest calls such a file; how a configuration that names it is read back.
inline std::string titan_file_name(Schedule kind) { return std::string(to_string(kind)) + ".csv"; }

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
