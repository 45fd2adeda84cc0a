// Tables that nccl-tests prints.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "cluster/measured.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    nest::cluster::parse_nccl_tests("fuzz.txt", std::string(reinterpret_cast<const char*>(data), size));
  } catch (const nest::InputError&) {
    // Refusing is the right answer to most of what comes here; anything else escapes and fails the run.
  }
  return 0;
}
