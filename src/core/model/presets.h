// Models that ship with nest: Hugging Face config files under data/models, embedded into the program.
// A preset file is a config.json plus an object "nest": {"description", "source", "sequence", "parameters", "aliases"}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/shelf.h"
#include "model/architecture.h"

namespace nest::model {

struct ModelPreset {
  std::string name;         // "llama3-70b"
  std::string description;  // "Llama 3 70B"
  std::string source;       // where its numbers come from
  std::vector<std::string> aliases;
  Architecture architecture;
};

// Sorted by family and size, as they should be listed.
const Shelf<ModelPreset>& model_presets();

// By name or alias (case-insensitive), or nothing when there is none: all of it, or its architecture.
std::optional<ModelPreset> find_preset(std::string_view name);
std::optional<Architecture> find_model_preset(std::string_view name);

}  // namespace nest::model
