// JSON that nest writes: members stay in the order they were added, and integers stay integers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nest::report {

using Json = nlohmann::ordered_json;

// A count that is computed in floating point (operations, bytes): an integer where it is one, so that readers in typed
// languages need no rounding.
Json json_number(double value);

// The document as text, indented by two, with a final newline. Names that are not UTF-8 are written with U+FFFD.
std::string to_text(const Json& document);

}  // namespace nest::report
