// Every set that nest is judged on. Each function reads its file below `folder` (laid out as docs/generated/accuracy.md
// describes) and gives a set with no rows where there is none.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accuracy/set.h"
#include "report/nearest_runs.h"

namespace nest::accuracy {

// All rows of all files folder/published/*.json that are lists of runs (or of folder/runs.json).
Set published_time(const std::filesystem::path& folder);
Set published_memory(const std::filesystem::path& folder);
Set published_activations(const std::filesystem::path& folder);
Set vtrain(const std::filesystem::path& folder, const std::string& which);  // "single", "multi"
Set step_time(const std::filesystem::path& folder);
Set step_memory(const std::filesystem::path& folder);
Set layer_saved(const std::filesystem::path& folder);
Set huggingface_saved(const std::filesystem::path& folder);
Set parameter_counts(const std::filesystem::path& folder);
Set operators(const std::filesystem::path& folder);
Set layer_time(const std::filesystem::path& folder);
// Those that the host decides: the same kernels were measured between one and three times as fast.
Set layer_host(const std::filesystem::path& folder);
Set collectives(const std::filesystem::path& folder);

// The runs that have a time, for data/runs.
std::vector<report::PublishedTime> published_times(const std::filesystem::path& folder);

// Those files, sorted by name.
std::vector<std::filesystem::path> published_files(const std::filesystem::path& folder);

// How one published run is priced, part by part, in words; what is missing when it is not.
std::string explain(const std::filesystem::path& folder, const std::string& id);

// All of them, in the order in which they are reported; those without rows are left away.
std::vector<Set> all_sets(const std::filesystem::path& folder);

}  // namespace nest::accuracy
