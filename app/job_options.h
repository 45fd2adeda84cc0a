// The options that say what is trained where, shared by every subcommand that prices or plans.
#pragma once

#include <CLI/CLI.hpp>

#include "load/job.h"

namespace nest {

void add_job_options(CLI::App& app, JobQuestion& question);

// --profile alone, for subcommands whose job is that of a plan.
void add_profile_option(CLI::App& app, std::string& profile);

}  // namespace nest
