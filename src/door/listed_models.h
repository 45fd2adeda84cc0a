// The model presets with what a list says about them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture.h"
#include "model/presets.h"

namespace nest {

struct ListedModel {
  model::ModelPreset preset;
  model::Architecture architecture;
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;
};

std::vector<ListedModel> listed_models();

}  // namespace nest
