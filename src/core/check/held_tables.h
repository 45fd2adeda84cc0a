// Tables that several layers of a stage share. Internal to check.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "split/local_layer.h"

namespace nest::check {

// Elements that an earlier layer holds: trained, and not.
struct HeldTables {
  std::int64_t trained = 0, frozen = 0;
};

// Of the layer's own; `held` collects the tables that were met.
HeldTables held_already(const split::LocalLayer& local, std::set<std::string>& held);

}  // namespace nest::check
