#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text.h"

namespace nest {
namespace {

struct CodePoints {
  char32_t first, last;
};

// What moves the cursor, changes the direction of text or cannot be seen: controls (C0 without tab and newline, DEL, C1),
// marks and overrides of direction, separators of lines, byte-order marks, annotations, noncharacters, tags.
constexpr std::array kNotShown = {CodePoints{0x00, 0x08},     CodePoints{0x0B, 0x1F},      CodePoints{0x7F, 0x9F},
                                  CodePoints{0x061C, 0x061C}, CodePoints{0x200E, 0x200F},  CodePoints{0x2028, 0x202E},
                                  CodePoints{0x2066, 0x2069}, CodePoints{0xFEFF, 0xFEFF},  CodePoints{0xFFF9, 0xFFFB},
                                  CodePoints{0xFFFE, 0xFFFF}, CodePoints{0xE0000, 0xE007F}};

struct CodePoint {
  char32_t code = 0;
  std::size_t bytes = 0;  // 0: no well-formed UTF-8
};

// Of a text that is not empty: the shortest forms of what is no surrogate, up to U+10FFFF.
CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  char32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < kLeast[length] || surrogate || code > 0x10FFFF ? CodePoint{} : CodePoint{code, length};
}

bool is_shown(char32_t code) {
  return std::none_of(kNotShown.begin(), kNotShown.end(),
                      [code](const CodePoints& range) { return range.first <= code && code <= range.last; });
}

// As JSON writes it, so that what is escaped inside a JSON text stays one.
std::string escaped(char32_t code) {
  const auto unit = [](char32_t value) { return fmt::format("\\u{:04x}", static_cast<std::uint32_t>(value)); };
  if (code < 0x10000) return unit(code);
  return unit(0xD800 + ((code - 0x10000) >> 10U)) + unit(0xDC00 + ((code - 0x10000) & 0x3FFU));
}

// Bytes of a change of colour or weight, as Style writes it, at the start of the text; else 0.
std::size_t ink_length(std::string_view text) {
  if (!text.starts_with("\x1B[")) return 0;
  std::size_t at = 2;
  while (at < text.size() && at < 6 && text[at] >= '0' && text[at] <= '9') ++at;
  return at < text.size() && text[at] == 'm' ? at + 1 : 0;
}

}  // namespace

std::string printable(std::string_view text, bool inked) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    std::size_t bytes = std::max<std::size_t>(1, point.bytes);
    if (point.bytes > 0 && is_shown(point.code)) {
      shown += text.substr(0, bytes);
    } else if (const std::size_t ink = inked ? ink_length(text) : 0; ink > 0) {
      shown += text.substr(0, bytes = ink);
    } else if (point.bytes > 0) {
      shown += escaped(point.code);
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

bool is_printable(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (point.bytes == 0 || !is_shown(point.code)) return false;
    text.remove_prefix(point.bytes);
  }
  return true;
}

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./:=,@%+").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace nest
