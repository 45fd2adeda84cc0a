// The options that say what is trained where, shared by every subcommand that prices or plans.
#pragma once

#include <CLI/CLI.hpp>

#include "load/job.h"

namespace nest {

void add_job_options(CLI::App& app, JobQuestion& question);

}  // namespace nest
