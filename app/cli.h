// From arguments to exit code.
#pragma once

namespace nest::app {

// Exit codes that scripts may rely on.
enum ExitCode : int {
  kExitOk = 0,
  kExitBug = 1,     // a promise inside nest was broken
  kExitInput = 2,   // bad input, bad usage, or a file that cannot be read or written
  kExitNoPlan = 3,  // no plan fits
  kExitLimit = 4,   // a limit was reached before any plan was found
};

// Parses the arguments, runs the subcommand and writes its result; never throws.
int run_program(int argc, const char* const* argv);

}  // namespace nest::app
