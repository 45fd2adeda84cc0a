// TOML files as documents. Dates, times and numbers that are not finite are refused: nothing that nest reads has them.
#pragma once

#include <string>

#include "doc/value.h"

namespace nest::launch {

// Throws InputError that names the file, line and what is wrong; a key or table given twice is wrong. Members stand in
// the order in which they were written.
Document parse_toml(std::string name, std::string text, const doc::Limits& limits = {});

}  // namespace nest::launch
