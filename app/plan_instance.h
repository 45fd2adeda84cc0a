// Layer-profile instances (instance/instance.h) for nest plan.
#pragma once

#include <string>

#include "command.h"

namespace nest {

// Solves the instance in the file, and writes the plan to `output` unless that is empty.
ExitCode plan_instance(const std::string& file, const std::string& output, Session& session);

}  // namespace nest
