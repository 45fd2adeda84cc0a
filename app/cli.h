// From arguments to exit code.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace nest {

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

struct ProgramResult {
  int code = kExitOk;
  std::string out;  // what the program would have written to standard output
  std::string err;  // … and to standard error
};

// The same as a part of another program, with the arguments that follow the program's name: nothing is printed, no
// signal is touched, and a search ends early when `stop` becomes true.
ProgramResult run_inside(const std::vector<std::string>& arguments, const std::atomic<bool>& stop);

}  // namespace nest
