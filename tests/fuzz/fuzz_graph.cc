// An operator graph that is accepted must also survive everything that is done with it.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "fuzz_graph.h"
#include "graph/read_graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    nest::use_graph(nest::graph::read_graph(nest::doc::parse_json(
        "graph.json", std::string(reinterpret_cast<const char*>(data), size), {.bytes = 1U << 20U})));
  } catch (const nest::InputError&) {
    // Refusing is the right answer to most of what comes here; anything else escapes and fails the run.
  }
  return 0;
}
