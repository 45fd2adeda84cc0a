// The options that say what is trained where, shared by every subcommand that prices or plans.
#pragma once

#include <CLI/CLI.hpp>

#include "nest/job.h"

namespace nest::app {

void add_job_options(CLI::App& app, Question& question);

// --profile alone, for subcommands whose job is that of a plan.
void add_profile_option(CLI::App& app, Input& profile);

// The job; for `plan` and `compare`, where neither a cluster nor a number of devices is given, on a few devices.
TrainingJob read_small_job(Question question);

}  // namespace nest::app
