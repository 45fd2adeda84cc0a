// What there is to draw of a plan, as numbers: for pages and programs that draw it themselves. Each call prices the plan
// anew, with its own documents, and throws InputError when that is not possible.
#pragma once

#include <string>

#include "nest/plan.h"

namespace nest {

// nest.pipeline/1: when every stage runs which micro-batch, and how many it keeps in memory meanwhile. Of many
// micro-batches the middle ones repeat and are left out; their time is told.
std::string pipeline_json(const Plan& plan);

// nest.placement/1: which stage of which replica sits on which device, the units that hold the devices, and how busy the
// plan keeps their links.
std::string placement_json(const Plan& plan);

}  // namespace nest
