#include "import_prompt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "nest/error.h"
#include "nest/text.h"
#include "output.h"

namespace nest::app {

bool can_ask() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1; }

std::string ask(const std::string& option, const std::string& question, const std::string& example) {
  write_stderr(fmt::format("{}, {} (for example {}): ", trim(option), question, example));
  std::string answer;
  if (!std::getline(std::cin, answer) || trim(answer).empty()) {
    throw InputError(fmt::format("{}{}: is needed", option, example));
  }
  return std::string(trim(answer));
}

}  // namespace nest::app
