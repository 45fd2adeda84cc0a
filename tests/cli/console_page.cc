#include "console_page.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "program.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

namespace fs = std::filesystem;

// A folder of its own for every page, so that pages can be run at the same time.
class Workplace {
 public:
  explicit Workplace(const ConsolePage& page)
      : folder_(fs::temp_directory_path() /
                ("nest-page-" + std::to_string(::getpid()) + "-" + page.file.stem().string())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    if (page.inputs.empty()) return;
    for (const fs::directory_entry& entry : fs::directory_iterator(page.inputs)) {
      if (entry.is_regular_file() && entry.path().extension() != ".md") {
        fs::copy_file(entry.path(), folder_ / entry.path().filename());
      }
    }
  }
  ~Workplace() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  std::string output_of(const std::string& command) const {
    const std::string programs = fs::path(program_path()).parent_path().string();
    const std::string script =
        "PATH='" + programs + "':\"$PATH\"\ncd '" + folder_.string() + "'\nexec 2>&1\n" + command;
    return run({.arguments = {"-c", script}, .program = "bash"}).out;
  }

 private:
  fs::path folder_;
};

struct Shown {
  std::string command;  // as written, without the "$ "
  std::string output;
  std::size_t line = 0;  // of the command, from 1
};

// The page, taken apart: text between outputs, and the outputs.
struct Parts {
  std::vector<std::string> text;  // one more than shown
  std::vector<Shown> shown;
};

Parts take_apart(const std::string& page) {
  Parts parts;
  parts.text.emplace_back();
  bool inside = false, in_output = false;
  const std::vector<std::string> all = lines(page);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& line = all[i];
    if (inside && line == "```") inside = in_output = false;
    if (inside && line.starts_with("$ ")) {
      Shown shown{line.substr(2), {}, i + 1};
      parts.text.back() += line + '\n';
      for (; i + 1 < all.size(); ++i) {
        const std::string& next = all[i + 1];
        const bool prompted = next.starts_with("> ");
        if (!prompted && !shown.command.ends_with('\\')) break;
        shown.command += '\n' + (prompted ? next.substr(2) : next);
        parts.text.back() += next + '\n';
      }
      parts.shown.push_back(std::move(shown));
      parts.text.emplace_back();
      in_output = true;
      continue;
    }
    if (in_output) {
      parts.shown.back().output += line + '\n';
      continue;
    }
    if (line == "```console") inside = true;
    parts.text.back() += line + '\n';
  }
  return parts;
}

std::string collapsed(const std::string& line) {
  static const std::regex kSpaces(" +");
  return std::regex_replace(line, kSpaces, " ");
}

// Columns are as wide as their widest line, and what does not fit ends in "…".
bool same_but_for_clipping(const std::string& a, const std::string& b) {
  static const std::string kClipped = "…";
  const auto begins = [](const std::string& clipped, const std::string& whole) {
    return clipped.ends_with(kClipped) && whole.starts_with(clipped.substr(0, clipped.size() - kClipped.size()));
  };
  return a == b || begins(a, b) || begins(b, a);
}

// An output as it is compared.
struct Comparable {
  std::vector<std::string> lines;  // without those below
  std::vector<std::string> why;    // settled comparisons, spaces collapsed
};

Comparable comparable(const std::string& output) {
  static const std::regex kSearched("(\\sopened,)\\s[0-9.]+\\ss\\.\\s");
  // The last column of `nest compare`, which is as wide as the longest search.
  static const std::regex kTook("((?:[GM]iB|-|memory) +)(?:[0-9.]+ (?:us|ms|s|min)|search)$");
  Comparable result;
  bool in_why = false;
  // The certificate is wrapped, and where depends on the time that it holds.
  for (const std::string& line : lines(std::regex_replace(output, kSearched, "$1 … "))) {
    if (in_why && line.empty()) in_why = false;
    if (in_why) {
      if (line.find("not searched to the end") == std::string::npos) result.why.push_back(collapsed(line));
      continue;
    }
    if (line.starts_with("  Why not …")) {
      in_why = true;
      continue;
    }
    const bool wrapped = !result.lines.empty() && result.lines.back().starts_with("Proven optimal") && !line.empty();
    if (wrapped) {
      result.lines.back() += " " + line;
    } else if (std::regex_search(line, kTook)) {
      result.lines.push_back(collapsed(std::regex_replace(line, kTook, "$1…")));
    } else {
      result.lines.push_back(line);
    }
  }
  return result;
}

// Where `fresh` contradicts `shown`: a pair of lines, or nothing.
std::vector<std::string> contradiction(const std::string& shown, const std::string& fresh) {
  const Comparable before = comparable(shown), after = comparable(fresh);
  for (std::size_t i = 0; i < std::max(before.lines.size(), after.lines.size()); ++i) {
    const std::string& old_line = i < before.lines.size() ? before.lines[i] : "(end)";
    const std::string& new_line = i < after.lines.size() ? after.lines[i] : "(end)";
    if (old_line != new_line) return {old_line, new_line};
  }
  for (const std::string& line : after.why) {
    const bool there = std::any_of(before.why.begin(), before.why.end(),
                                   [&](const std::string& known) { return same_but_for_clipping(known, line); });
    if (!there) return {"(not there)", line};
  }
  return {};
}

}  // namespace

void expect_page_is_true(const ConsolePage& page) {
  const char* update = std::getenv("NEST_UPDATE_GOLDEN");
  const bool updating = update != nullptr && std::string(update) == "1";
  const Parts parts = take_apart(read_file(page.file));
  const Workplace workplace(page);
  std::string renewed = parts.text.front();
  bool changed = false;
  for (std::size_t i = 0; i < parts.shown.size(); ++i) {
    const Shown& shown = parts.shown[i];
    const std::string fresh = workplace.output_of(shown.command);
    const std::vector<std::string> differs = contradiction(shown.output, fresh);
    changed = changed || !differs.empty();
    renewed += (differs.empty() ? shown.output : fresh) + parts.text[i + 1];
    if (updating || differs.empty()) continue;
    ADD_FAILURE() << page.file.string() << ":" << shown.line << ": $ " << shown.command << "\n  the page says  "
                  << differs[0] << "\n  nest prints    " << differs[1]
                  << "\nIf the change is meant, run tools/refresh-docs";
  }
  if (updating && changed) std::ofstream(page.file, std::ios::binary) << renewed;
}

}  // namespace nest::test
