// Plans, measured profiles and measurement files.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "calibrate/measurement.h"
#include "cost/profile.h"
#include "plan/plan_json.h"

namespace {

template <class Use>
void attempt(Use use) {
  try {
    use();
  } catch (const nest::InputError&) {
    // Refusing is the right answer to most of what comes here; anything else escapes and fails the run.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  attempt([&] {
    const nest::Document document = nest::doc::parse_json(
        "fuzz.json", std::string(reinterpret_cast<const char*>(data), size), {.bytes = 1U << 20U});
    attempt([&] { nest::plan::plan_to_json(nest::plan::read_plan(document)); });
    attempt([&] { nest::cost::read_profile(document); });
    attempt([&] { nest::calibrate::read_measurements(document); });
  });
  return 0;
}
