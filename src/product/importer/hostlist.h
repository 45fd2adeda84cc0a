// Host lists as Slurm writes them: gpu[001-128,130], rack[1-2]n[01-04], a,b[1-3],c.
//
// Items are separated by commas or blanks outside brackets. An item is a name with any number of bracket groups; a
// group lists numbers N and ranges N-M, N <= M, the width of N giving the zero padding. Several groups make every
// combination, the leftmost changing slowest. Repeated names stay.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nest::importer {

inline constexpr std::size_t kMostHosts = 1U << 17U;         // of one list
inline constexpr std::size_t kMostHostsOfRange = 1U << 16U;  // of one N-M
inline constexpr std::size_t kLongestHostName = 255;

// Throws InputError that quotes the item and says what is wrong with it. Lists of more than kMostHosts names are
// refused before they are written out.
std::vector<std::string> expand_hostlist(std::string_view text);

// The shortest list that expands to these names in this order: runs of numbers of equal width become ranges.
std::string compress_hostlist(const std::vector<std::string>& names);

}  // namespace nest::importer
