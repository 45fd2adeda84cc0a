// A plan as JSON, schema "nest.plan/3" (docs/formats.md). Keys carry their unit; sizes are bytes, times seconds.
//
// Older files open with the meaning that they had. Until nest.plan/2 `ep` counted ranks beside `dp` and beside the
// tensor ranks over which whole experts were spread; such strategies are put into today's words, on the same devices.
// The first schema, nest.plan/1, had neither stack nor profile: its run.stack names a stack that ships, and it was
// priced without a profile.
#pragma once

#include <nlohmann/json.hpp>

#include "doc/value.h"
#include "plan/plan.h"

namespace nest::plan {

inline constexpr const char* kPlanSchema = "nest.plan/3";
inline constexpr const char* kSecondPlanSchema = "nest.plan/2";
inline constexpr const char* kFirstPlanSchema = "nest.plan/1";

nlohmann::ordered_json plan_to_json(const Plan& plan);

// Reads what plan_to_json writes, plans of older schemas, and hand-written plans: documents, times, memory,
// prediction, evaluation and search may be missing. Unknown keys and words, sizes out of range and another schema are
// InputErrors; whether the plan makes sense is for others to judge.
Plan read_plan(const Document& document);

}  // namespace nest::plan
