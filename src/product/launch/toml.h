// TOML as configuration files use it: tables, dotted keys, strings, numbers, booleans, arrays and inline tables. Dates
// and multi-line strings are refused.
#pragma once

#include <string>

#include "doc/value.h"

namespace nest {

// Throws InputError that names the file, line and what is wrong; a key or table given twice is wrong.
Document parse_toml(std::string name, std::string text, const Limits& limits = {});

}  // namespace nest
