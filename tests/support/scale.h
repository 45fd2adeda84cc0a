// How long the tests with random cases take. The environment variable NEST_TEST_SCALE multiplies their number of cases: 1 where it is
// not set, less in `make test`, more in `make soak`.
#pragma once

#include <cstdint>

namespace nest::test {

double scale();

// count * scale(), but no fewer than `least`: what the test needs to mean anything.
std::uint32_t scaled(std::uint32_t count, std::uint32_t least = 1);

}  // namespace nest::test
