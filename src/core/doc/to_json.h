// A document's tree as JSON again, whatever it was written in.
#pragma once

#include <nlohmann/json.hpp>

#include "doc/value.h"

namespace nest::doc {

nlohmann::ordered_json to_json(const Value& value);

}  // namespace nest::doc
