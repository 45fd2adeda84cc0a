// Layer-profile instances: small ones that are accepted are solved too.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "instance/planner.h"
#include "instance/read.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const nest::instance::ProfileInstance instance = nest::instance::read_profile_instance(nest::doc::parse_json(
        "fuzz.json", std::string(reinterpret_cast<const char*>(data), size), {.bytes = 1U << 20U}));
    if (instance.devices <= 4096) nest::instance::plan_profile_instance(instance);
  } catch (const nest::InputError&) {
    // Refusing is the right answer to most of what comes here; anything else escapes and fails the run.
  }
  return 0;
}
