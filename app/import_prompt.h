// Questions to a person at a terminal.
#pragma once

#include <string>

namespace nest::app {

// Whether somebody can be asked: standard input and standard error are a terminal.
bool can_ask();

// Asks on standard error for the value of an option and reads a line. Throws InputError when there is none.
std::string ask(const std::string& option, const std::string& question, const std::string& example);

}  // namespace nest::app
