// Runs the built program the way a shell would.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace nest::test {

// What standard output is connected to.
enum class Sink { pipe, terminal, closed_pipe, full_disk };

struct Call {
  std::vector<std::string> arguments = {};
  std::string input = {};                               // standard input
  std::map<std::string, std::string> environment = {};  // added to PATH and TERM=xterm; nothing else is inherited
  Sink sink = Sink::pipe;
  std::string program = {};  // default: nest
};

struct Result {
  int code = -1;  // exit code, or -signal
  std::string out;
  std::string err;
};

Result run(const Call& call);

// nest with arguments, standard input empty.
Result nest(const std::vector<std::string>& arguments);

// Path of the built nest.
std::string program_path();

std::vector<std::string> lines(const std::string& text);

}  // namespace nest::test
