// Completion scripts, from the program's own description of its arguments.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "command.h"

namespace nest::app {

struct CompletionOption {
  std::vector<std::string> names;  // with dashes
  std::string description;
  bool takes_value = false;
  std::vector<std::string> choices;  // of its value, where they can be listed
  bool or_file = false;              // or a file
};

struct CompletionCommand {
  std::string name;
  std::string description;
  std::vector<CompletionOption> options;  // those of the program included
  std::vector<std::string> words;         // for its positional argument
};

struct CompletionWords {
  std::vector<CompletionCommand> commands;
  std::vector<CompletionOption> options;  // before any subcommand
};

CompletionWords collect_words(std::span<const Command> commands);

std::string bash_script(const CompletionWords& words);
std::string zsh_script(const CompletionWords& words);
std::string fish_script(const CompletionWords& words);

}  // namespace nest::app
