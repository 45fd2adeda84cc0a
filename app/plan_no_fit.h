// What nest plan says when nothing fits.
#pragma once

#include <string>

#include "command.h"
#include "job_options.h"
#include "search/planner.h"

namespace nest {

// What binds, by how much, and what would make it fit; JSON where the session asks for it.
std::string no_fit_text(const PlanRequest& request, const Session& session);

}  // namespace nest
