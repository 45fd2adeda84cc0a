// Small helpers for words that people read or mistype; those that front ends need too are in nest/text.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nest/text.h"

namespace nest {

// The words of a line: what stands between blanks, tabs and line ends.
std::vector<std::string_view> split_words(std::string_view text);

// Number of insertions, deletions, replacements and swaps of neighbours that turn one word into the other, or limit + 1 where
// that is more than `limit`: words that are far apart are seen to be at once.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit = std::string_view::npos - 1);

// The candidate closest to `word`, if one is close enough to be what was meant.
std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> candidates);

}  // namespace nest
