// Counts, positions and indices are std::int64_t (or int) everywhere; containers want std::size_t and formulas double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace nest {

// An index that is not negative, as containers take it: prefix[at(i)]. Enumerators count from 0.
template <class Index>
requires std::is_integral_v<Index> || std::is_enum_v<Index>
constexpr std::size_t at(Index index) { return static_cast<std::size_t>(index); }

// A count as a factor of a formula; exact up to 2^53.
template <class Count>
requires std::is_integral_v<Count>
constexpr double real(Count count) { return static_cast<double>(count); }

}  // namespace nest
