// Hugging Face config.json -> Architecture.
//
// Every family is one function that reads the keys its model_type defines, with that class's defaults where published
// files rely on them. Keys that do not change shapes are ignored, as transformers does; a needed key that is absent is
// an error that names a likely misspelling. Sizes are limited (kMaxHidden …) so that a lying file is refused rather
// than built.
#pragma once

#include <string>
#include <vector>

#include "doc/value.h"
#include "model/architecture.h"

namespace nest::model {

// Throws InputError. `name` becomes Architecture::name.
Architecture read_config(const Document& config, std::string name);

// All model_type values understood, sorted.
std::vector<std::string> supported_families();

}  // namespace nest::model
