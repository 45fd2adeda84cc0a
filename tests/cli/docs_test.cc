// The documentation shows what the program prints. Every ```console block of README.md and docs/commands.md is one
// command, after "$
// ", and its output; with NEST_UPDATE_GOLDEN=1 in the environment the outputs are written anew.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "program.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

std::string output_of(const std::string& command) {
  const std::string folder = std::filesystem::path(program_path()).parent_path().string();
  const std::string script = "PATH='" + folder + "':\"$PATH\"\nexec 2>&1\n" + command;
  return run({.arguments = {"-c", script}, .program = "sh"}).out;
}

// The text with the output of every example replaced by the real one.
std::string refreshed(const std::string& text) {
  std::string fresh;
  bool inside = false;
  bool keep = true;  // false while passing over an old output
  for (const std::string& line : lines(text)) {
    if (inside && line == "```") {
      inside = false;
      keep = true;
    }
    if (inside && line.starts_with("$ ")) {
      fresh += line + '\n' + output_of(line.substr(2));
      keep = false;
      continue;
    }
    if (line == "```console") inside = true;
    if (keep) fresh += line + '\n';
  }
  return fresh;
}

class Documentation : public ::testing::TestWithParam<const char*> {};

TEST_P(Documentation, ShowsWhatTheProgramPrints) {
  const std::filesystem::path path = source_dir() / GetParam();
  const std::string text = read_file(path);
  const std::string fresh = refreshed(text);
  if (const char* update = std::getenv("NEST_UPDATE_GOLDEN"); update && std::string(update) == "1") {
    std::ofstream(path, std::ios::binary) << fresh;
    return;
  }
  // Line by line: a difference in one example should not print the whole document.
  const std::vector<std::string> old_lines = lines(text);
  const std::vector<std::string> new_lines = lines(fresh);
  for (std::size_t i = 0; i < std::max(old_lines.size(), new_lines.size()); ++i) {
    const std::string before = i < old_lines.size() ? old_lines[i] : "(end)";
    const std::string after = i < new_lines.size() ? new_lines[i] : "(end)";
    ASSERT_EQ(before, after) << path << ":" << i + 1 << ": if the change is meant, run with NEST_UPDATE_GOLDEN=1";
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Documentation, ::testing::Values("README.md", "docs/commands.md"),
                         [](const auto& file) { return file.index == 0 ? "readme" : "commands"; });

}  // namespace
}  // namespace nest::test
