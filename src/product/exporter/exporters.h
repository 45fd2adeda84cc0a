// What plans can be written as, one row each: name, words, formats, and the function that writes.
//
// A new exporter is a file with its function and a row in exporters.cc; programs, help, completion and the tables of
// docs/export.md follow. Nothing here reads or writes files: an exporter returns a text, or hands files to whoever asked.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/megatron.h"
#include "exporter/rank_map.h"
#include "launch/frameworks.h"

namespace nest::exporter {

struct ExportFormat {
  const char* name;
  const char* words;                                // what it is, for docs/export.md
  std::optional<launch::Framework> framework = {};  // of folders: whose rules a plan must keep to
};

// A text and what there is to say about it.
struct ExportedText {
  std::string text;
  nlohmann::ordered_json json;  // the same for programs: members of nest.export/1
  std::vector<std::string> notes;
  std::vector<std::pair<std::string, std::string>> environment;
};

// Several files, handed over one by one under their names, and what there is to say about them.
using TakeFile = std::function<void(const std::string& name, const std::string& content)>;
struct ExportedFiles {
  std::string summary;          // "one step, 8 ranks, …", then a line for every kind of file
  nlohmann::ordered_json json;  // for programs: members of nest.export/1
  std::vector<std::string> notes = {};
};

struct Exporter {
  const char* name;
  const char* words;
  std::span<const ExportFormat> formats;       // the default first
  std::optional<launch::Framework> framework;  // whose rules a plan must keep to
  // One of the two. `format` is an index into the formats.
  ExportedText (*write)(const ExportTask& task, std::size_t format) = nullptr;
  ExportedFiles (*write_files)(const ExportTask& task, std::size_t format, const TakeFile& take) = nullptr;
};

std::span<const Exporter> exporters();
const Exporter* find_exporter(std::string_view name);
std::vector<std::string> exporter_names();

// Index of a format by its name; empty is the default. Throws InputError with the names that the exporter has.
std::size_t format_index(const Exporter& exporter, std::string_view format);

// "megatron: args, script; nemo: bridge, nemo2; …": the exporters that have a choice.
std::string formats_text();

}  // namespace nest::exporter
