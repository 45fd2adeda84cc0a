// Small helpers for words that people read or mistype.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nest {

std::string_view trim(std::string_view text);
std::vector<std::string_view> split_text(std::string_view text, char separator);
// The words of a line: what stands between blanks, tabs and line ends.
std::vector<std::string_view> split_words(std::string_view text);
std::string to_lower(std::string_view text);

// At most `limit` characters (UTF-8 sequences kept whole), with control characters and broken UTF-8 shown as '?',
// for quoting a user's value in a message.
std::string clip(std::string_view text, std::size_t limit);

// Number of insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate closest to `word`, if one is close enough to be what was meant.
std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> candidates);

// "; did you mean `x`?" or nothing, to be appended to a message.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// "a, b and c"
std::string join_words(std::span<const std::string> words, std::string_view conjunction = "and");

}  // namespace nest
