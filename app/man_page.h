// Manual pages in roff (man 7), from the same descriptions that --help prints.
#pragma once

#include <span>
#include <string>

#include "command.h"

namespace nest::app {

// nest(1): what there is, and what holds for all of it.
std::string program_page(const CLI::App& program, std::span<const Command> commands);

// nest-NAME(1).
std::string command_page(const CLI::App& command);

}  // namespace nest::app
