// How much memory per device an instance needs for any plan to exist: what to tell when nothing fits.
#pragma once

#include <cstdint>
#include <optional>

#include "instance/instance.h"

namespace nest::instance {

struct LeastMemory {
  std::int64_t bytes = 0;  // the smallest M for which some plan is valid
  std::int64_t width = 1;  // of such a plan
  int stages = 1;
};

// The minimum over widths, numbers of stages and cuts of the largest stage memory (one replica is never worse than
// several). Nothing when every width needs more devices for one stage than there are.
std::optional<LeastMemory> least_profile_memory(const ProfileInstance& instance);

}  // namespace nest::instance
