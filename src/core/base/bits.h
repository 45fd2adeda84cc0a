// The bits of a double, for hashes: std::bit_cast, which libc++ 13 (the browser's build) does not have yet.
#pragma once

#include <cstdint>
#include <cstring>

namespace nest {

inline std::uint64_t bits_of(double value) {
  std::uint64_t bits = 0;
  static_assert(sizeof bits == sizeof value);
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace nest
