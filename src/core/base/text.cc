#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/real.h"

namespace nest {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Length of the well-formed UTF-8 sequence at the start of `text`, or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                             : lead >= 0xE0                ? 3
                             : lead >= 0xC2                ? 2
                                                           : 0;
  if (length == 0 || lead >= 0xF5 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

// Other names of words that options take.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kOtherWords = {{
    {"adamw", "adam"},
    {"adam_w", "adam"},
    {"adamw8bit", "adam8bit"},
    {"adam-8bit", "adam8bit"},
    {"bfloat16", "bf16"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"float32", "fp32"},
    {"float8", "fp8"},
    {"float4", "fp4"},
    {"nvfp4", "fp4"},
    {"megatron-lm", "megatron"},
}};

}  // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> split_words(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::vector<std::string_view> words;
  for (std::size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;
       begin = text.find_first_not_of(kBlanks, begin)) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string clip(std::string_view text, std::size_t limit) {
  std::string shown;
  std::size_t characters = 0;
  while (!text.empty()) {
    if (characters == limit) return shown + "…";
    const std::size_t length = utf8_length(text);
    const bool printable = length > 1 || (length == 1 && text[0] >= 0x20 && text[0] != 0x7F);
    if (printable) {
      shown += text.substr(0, length);
    } else {
      shown += '?';
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
    ++characters;
  }
  return shown;
}

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  // Every letter that one word has more is an insertion.
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return limit + 1;
  // Three rows of the optimal-string-alignment table suffice: a swap looks two rows back.
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
    // All ways to the end lead through this row or the one before it, and none becomes shorter.
    if (*std::min_element(above.begin(), above.end()) > limit &&
        *std::min_element(before.begin(), before.end()) > limit) {
      return limit + 1;
    }
  }
  return std::min(above[b.size()], limit + 1);
}

std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestWord = 100;  // beyond it nobody mistyped; keeps hostile input cheap
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  const std::string wanted = to_lower(word);
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    const std::size_t distance = edit_distance(wanted, to_lower(candidate), best_distance - 1);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
    if (best_distance == 0) break;
  }
  if (best || wanted.size() < 3) return best;
  // Only begun: "megatron" of "megatron-core".
  for (const std::string& candidate : candidates) {
    if (to_lower(candidate).starts_with(wanted)) return candidate;
  }
  return best;
}

std::optional<std::size_t> find_word(std::string_view word, std::span<const std::string> words) {
  const std::string lower = to_lower(trim(word));
  const auto index_of = [&](std::string_view wanted) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (wanted == words[i] || wanted == to_lower(words[i])) return i;
    }
    return std::nullopt;
  };
  if (const auto found = index_of(word)) return found;
  if (const auto found = index_of(lower)) return found;
  for (const auto& [other, known] : kOtherWords) {
    if (lower == other) return index_of(known);
  }
  return std::nullopt;
}

std::optional<std::int64_t> parse_whole(std::string_view text) {
  std::string digits;  // without what divides thousands
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool divides = (text[i] == ',' || text[i] == '_') && i > 0 && i + 3 < text.size();
    const auto is_digit = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '9'; };
    if (divides && is_digit(i - 1) && is_digit(i + 1) && is_digit(i + 2) && is_digit(i + 3) &&
        (i + 4 == text.size() || !is_digit(i + 4))) {
      continue;
    }
    digits += text[i];
  }
  const char* const end = digits.data() + digits.size();
  std::int64_t whole = 0;
  if (const auto [rest, status] = std::from_chars(digits.data(), end, whole); status == std::errc{} && rest == end) {
    return whole;
  }
  double number = 0;
  const auto [rest, status] = real_from_chars(digits.data(), end, number);
  const std::string_view read(digits.data(), static_cast<std::size_t>(rest - digits.data()));
  if (status != std::errc{} || read.find_first_not_of("0123456789.") != std::string_view::npos) return std::nullopt;
  const std::string unit = to_lower(trim(std::string_view(rest, static_cast<std::size_t>(end - rest))));
  double factor = 0;
  if (unit == "k" || unit == "ki") factor = 0x1p10;
  if (unit == "m" || unit == "mi") factor = 0x1p20;
  const double value = number * factor;
  if (factor == 0 || !(value < 0x1p53) || value != std::floor(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const auto closest = closest_word(word, candidates);
  return closest ? fmt::format("; did you mean `{}`?", *closest) : std::string();
}

std::string join_words(std::span<const std::string> words, std::string_view conjunction) {
  std::string joined;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) joined += i + 1 == words.size() ? fmt::format(" {} ", conjunction) : ", ";
    joined += words[i];
  }
  return joined;
}

}  // namespace nest
