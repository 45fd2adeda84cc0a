// How long the tests with random cases take, and which cases they are. The environment variable NEST_TEST_SCALE multiplies their number: 1
// where it is not set, less in `make test`, more in `make soak`. NEST_TEST_DRAW=n draws other planning problems from the same seeds, those of
// 0 where it is not set: what a fixed list of seeds never meets, some draw of `make soak-oracles` does.
#pragma once

#include <cstdint>

namespace nest::test {

double scale();

// count * scale(), but no fewer than `least`: what the test needs to mean anything.
std::uint32_t scaled(std::uint32_t count, std::uint32_t least = 1);

std::uint64_t draw();

}  // namespace nest::test
