// The options that say what is trained where, shared by every subcommand that prices or plans.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "nest/job.h"

namespace nest::app {

// `positional`: the model may be named without its flag.
void add_job_options(CLI::App& app, Question& question, bool positional = false);

// Every dimension of a plan as an option, --tp 8: its settings, "tp=8", are appended to `settings`. `limits`: those
// that a search may be limited by, with the values that --set takes. Options that are there already stay as they are.
void add_dimension_options(CLI::App& app, std::vector<std::string>& settings, bool limits);

// Of presets, for completion.
std::vector<std::string> model_names();
std::vector<std::string> cluster_names();

// The options of add_job_options, where each of some may be several: "dgx-h100,dgx-b200", "64,128".
struct JobLists {
  std::vector<std::string> clusters, stacks;
  std::vector<std::int64_t> devices;
};
void add_job_options(CLI::App& app, Question& question, JobLists& lists);

// --profile alone, for subcommands whose job is that of a plan.
void add_profile_option(CLI::App& app, Input& profile);

}  // namespace nest::app
