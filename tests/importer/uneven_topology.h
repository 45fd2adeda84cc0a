// A large topology.conf whose racks and pods all differ, the same for the same numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

namespace nest::test {

struct UnevenTopology {
  std::string conf;
  std::int64_t racks = 0;
  std::int64_t pods = 0;
};

// Racks of 9 … 16 nodes, pods of 5 … 8 racks, one core above. Node names are gpu0001 …
inline UnevenTopology uneven_topology(std::int64_t nodes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  const auto padded = [](std::int64_t number) {
    const std::string digits = std::to_string(number);
    return std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits;
  };
  const auto range = [&](std::int64_t first, std::int64_t count) {
    return "[" + padded(first) + "-" + padded(first + count - 1) + "]\n";
  };
  UnevenTopology made;
  for (std::int64_t first = 1; first <= nodes;) {
    const std::int64_t count = std::min(pick(9, 16), nodes - first + 1);
    made.conf += "SwitchName=rack" + padded(++made.racks) + " Nodes=gpu" + range(first, count);
    first += count;
  }
  for (std::int64_t first = 1; first <= made.racks;) {
    const std::int64_t count = std::min(pick(5, 8), made.racks - first + 1);
    made.conf += "SwitchName=pod" + padded(++made.pods) + " Switches=rack" + range(first, count);
    first += count;
  }
  made.conf += "SwitchName=core Switches=pod" + range(1, made.pods);
  return made;
}

}  // namespace nest::test
