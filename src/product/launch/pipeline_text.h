// Megatron's own small languages: the layout of a pipeline, and which layers have experts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/setup.h"

namespace nest::launch {

// "Et*3|(tt|)*29,m|L". On failure returns nothing and says why in `reason`. `mtp` counts m.
std::optional<std::vector<LaunchChunk>> parse_layout(std::string_view text, std::int64_t& mtp, std::string& reason);

// An integer N (every N-th layer, from the first) or a list such as "([0]*3+[1]*58)": 1 for every layer with experts.
std::optional<std::vector<std::int64_t>> parse_layer_frequency(std::string_view text, std::int64_t layers);

}  // namespace nest::launch
