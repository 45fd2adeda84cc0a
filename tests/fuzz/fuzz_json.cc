#include <cstdint>
#include <string>

#include "base/error.h"
#include "doc/reader.h"
#include "doc/value.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const nest::Document document = nest::doc::parse_json(
        "fuzz.json", std::string(reinterpret_cast<const char*>(data), size), {.bytes = 1U << 20U});
    nest::doc::Reader reader(document);
    for (const std::string& key : reader.keys()) reader.maybe_bytes(key);
    reader.refuse_unknown_keys();
  } catch (const nest::InputError&) {
    // Refusing is the right answer to most of what comes here; anything else escapes and fails the run.
  }
  return 0;
}
