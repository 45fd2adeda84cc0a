// nest, the program: a thin edge around the library. Arguments, files and the terminal are dealt with here in app/, and
// nowhere else.
#include <csignal>

#include "cli.h"

int main(int argc, char** argv) {
  // A reader that went away (nest … | head) shows up as a failed write, which is handled where output is written.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // as does a file that may not grow any further
  return nest::app::run_program(argc, argv);
}
