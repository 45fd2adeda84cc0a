// A plan as JSON, schema "nest.plan/1" (docs/formats.md). Keys carry their unit; sizes are bytes, times seconds.
#pragma once

#include <nlohmann/json.hpp>

#include "plan/plan.h"

namespace nest {

inline constexpr const char* kPlanSchema = "nest.plan/1";

nlohmann::ordered_json plan_to_json(const Plan& plan);

// Reads what plan_to_json writes, and hand-written plans: times, memory, prediction and search may be missing. Unknown
// keys, sizes out of range and another schema are InputErrors; whether the plan makes sense is for others to judge.
Plan read_plan(const Document& document);

// A document's tree as JSON again.
nlohmann::ordered_json to_json(const Value& value);

}  // namespace nest
