// The file that a bug report needs when the search returns a plan that the judge refuses.
#pragma once

#include <string>

#include "search/judge.h"

namespace nest {

// Writes the plan with its violations to nest-unsound-plan.json in the current folder, for `nest check`. Returns a
// clause that says so, or why it could not be written.
std::string write_reproducer(const UnsoundPlan& bug);

}  // namespace nest
