// nest-simulate: reads a program (docs/simulation.md) on standard input, executes it, writes when everything happened
// on standard output. Exit: 0, or 2 for a program that cannot be executed, with one line on standard error.
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "engine.h"
#include "simulate/program_json.h"

int main() {
  try {
    std::ios::sync_with_stdio(false);
    const std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
    const nest::simulate::SimulationProgram program = nest::simulate::read_program(text);
    std::cout << nest::simulate::timeline_to_json(nest::execute(program)) << '\n' << std::flush;
    if (!std::cout) throw nest::InputError("cannot write the timeline");
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "nest-simulate: " << error.what() << '\n';
    return 2;
  }
}
