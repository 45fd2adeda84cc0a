#include "test_support/scale.h"

#include <algorithm>
#include <cstdlib>

namespace nest::test {

double scale() {
  const char* text = std::getenv("NEST_TEST_SCALE");
  return text && *text ? std::max(0.0, std::atof(text)) : 1.0;
}

std::uint32_t scaled(std::uint32_t count, std::uint32_t least) {
  return std::max(least, static_cast<std::uint32_t>(count * scale()));
}

std::uint64_t draw() {
  const char* text = std::getenv("NEST_TEST_DRAW");
  return text ? std::strtoull(text, nullptr, 10) : 0;
}

}  // namespace nest::test
