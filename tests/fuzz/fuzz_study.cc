// Study files: what is accepted has points, and every point asks a question or says why it cannot.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "sweep/point.h"
#include "sweep/study.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const nest::Study study = nest::sweep::read_study(
        nest::doc::parse_yaml("fuzz.yaml", std::string(reinterpret_cast<const char*>(data), size),
                              {.bytes = 1U << 20U}),
        "fuzz");
    if (study.points.empty()) __builtin_trap();
    nest::sweep::definition_of(study, "fuzz", {});
    nest::sweep::Questions questions(study);
    for (std::size_t k = 0; k < study.points.size() && k < 4; ++k) questions.at(study.points[k]);
  } catch (const nest::InputError&) {}
  return 0;
}
