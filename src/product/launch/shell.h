// The part of the shell that launch scripts are written in, without running anything: assignments, arrays, quotes,
// ${V:-default}, $((a*b)), continuation lines. What a word contains that cannot be known from the text alone (a
// variable that nobody set, a command substitution) stays in the word as written, and its name is remembered.
//
// Assignments inside if, for, while, case and functions may or may not happen: such variables count as unknown, unless
// conditions compare what is known ([ "$TP" -gt 1 ]). Files that are sourced are read where they can be found.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace nest::launch {

struct ShellWord {
  std::string text;
  std::vector<std::string> unknown;  // "$MASTER_ADDR", "$(hostname)": what could not be resolved
  int line = 0;                      // 1-based
};

struct ShellCommand {
  std::vector<ShellWord> words;  // without assignments and redirections
  int line = 0;
};

using ShellVariables = std::map<std::string, std::vector<ShellWord>, std::less<>>;  // several words: an array

struct ShellScript {
  std::vector<ShellCommand> commands;  // in the order of the text
  std::vector<ShellWord> sbatch;       // words of all #SBATCH lines
  ShellVariables variables;            // at the end
};

// What a script is read with: variables that are set from the start, of which `fixed` keep their value whatever the text
// assigns, and other files by their names (empty: none).
struct ShellContext {
  ShellVariables variables;
  std::set<std::string, std::less<>> fixed;
  std::function<std::optional<std::string>(const std::string& name)> read_file;
};

// Throws InputError that names `source` and the line: quotes and brackets that are never closed, texts above a megabyte or
// that grow beyond it when expanded.
ShellScript read_shell(std::string_view source, std::string_view text, const ShellContext& context);
ShellScript read_shell(std::string_view source, std::string_view text, const ShellVariables& variables = {});

// Words of a file of arguments: separated by blanks and newlines, `#` begins a comment, quotes group, nothing else is
// special.
std::vector<ShellWord> read_arguments(std::string_view source, std::string_view text);

}  // namespace nest::launch
