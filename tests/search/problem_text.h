// A problem as files that the program reads, so that a failure can be looked at outside the test.
#pragma once

#include <filesystem>
#include <string>

#include "problem.h"

namespace nest::test {

std::string cluster_yaml(const cluster::Cluster& cluster);
std::string profile_json(const cost::Job& job);  // empty where there is none

// `nest plan …` over the files that save_problem() writes. What no file can say follows as a comment.
std::string command_line(const Problem& problem, const std::filesystem::path& folder);

// model.json, cluster.yaml, profile.json and command.txt; returns the folder.
std::filesystem::path save_problem(const Problem& problem, const std::filesystem::path& folder);

// All of it as text, and how to run the one seed again.
std::string problem_text(const Problem& problem);

std::string strategy_line(const Strategy& strategy, const std::vector<StagePlan>& stages);

}  // namespace nest::test
