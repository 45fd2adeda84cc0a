// What is said when a command fails: one message for people on standard error, and with --json the same as one object
// on standard output (nest.error/1), so that programs need not read prose.
#pragma once

#include <string>
#include <string_view>

#include "cli.h"

namespace nest::app {

struct Failure {
  ExitCode code = kExitBug;
  std::string message;       // one paragraph, without "nest: "
  std::string excerpt = {};  // the lines of the input that it is about, the place marked
  std::string hint = {};     // what to do: "Try `nest plan --help`."
};

// "input", "no_plan", "limit" or "bug".
std::string_view kind_of(ExitCode code);

std::string to_json(const Failure& failure);

// Says it, and returns its exit code.
ExitCode report_failure(const Failure& failure, bool json);

}  // namespace nest::app
