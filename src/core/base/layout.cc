#include "base/layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace nest {
namespace {

struct CodeRange {
  char32_t first;
  char32_t last;
};

// The blocks that matter for names and messages; a terminal's own table is longer, but differs from its neighbour's
// anyway.
constexpr std::array kWide = {CodeRange{0x1100, 0x115F},  CodeRange{0x2E80, 0x303E}, CodeRange{0x3041, 0xA4CF},
                              CodeRange{0xAC00, 0xD7A3},  CodeRange{0xF900, 0xFAFF}, CodeRange{0xFE30, 0xFE6F},
                              CodeRange{0xFF00, 0xFF60},  CodeRange{0xFFE0, 0xFFE6}, CodeRange{0x1F300, 0x1FAFF},
                              CodeRange{0x20000, 0x3FFFD}};
constexpr std::array kCombining = {CodeRange{0x0300, 0x036F}, CodeRange{0x200B, 0x200F}, CodeRange{0x20D0, 0x20FF},
                                   CodeRange{0xFE00, 0xFE0F}, CodeRange{0xFE20, 0xFE2F}};

template <std::size_t N>
bool within(char32_t code, const std::array<CodeRange, N>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [code](const CodeRange& range) { return range.first <= code && code <= range.last; });
}

struct Character {
  std::size_t bytes;
  std::size_t width;
};

// The character at the start of well-formed UTF-8 text.
Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = std::min<std::size_t>(lead < 0x80   ? 1
                                                   : lead < 0xE0 ? 2
                                                   : lead < 0xF0 ? 3
                                                                 : 4,
                                                   text.size());
  char32_t code = length == 1 ? lead : lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) code = code << 6U | (static_cast<unsigned char>(text[i]) & 0x3FU);
  return {length, within(code, kCombining) ? 0U : within(code, kWide) ? 2U : 1U};
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    width += character.width;
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string clip_to_width(std::string_view text, std::size_t columns) {
  std::string clean = clip(text, std::numeric_limits<std::size_t>::max());
  if (display_width(clean) <= columns) return clean;
  if (columns == 0) return {};
  std::string_view rest = clean;
  std::string shown;
  for (std::size_t width = 0;;) {
    const Character character = first_character(rest);
    width += character.width;
    if (width > columns - 1) return shown + "…";
    shown += rest.substr(0, character.bytes);
    rest.remove_prefix(character.bytes);
  }
}

std::string pad_right(std::string_view text, std::size_t columns) {
  const std::size_t width = display_width(text);
  return std::string(text) + std::string(columns > width ? columns - width : 0, ' ');
}

std::vector<std::string> wrap(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  for (const std::string_view paragraph : split_text(text, '\n')) {
    std::string line;
    std::size_t width = 0;
    for (const std::string_view word : split_text(paragraph, ' ')) {
      const std::size_t word_width = display_width(word);
      if (word.empty()) continue;
      if (width > 0 && width + 1 + word_width > columns) {
        lines.push_back(line);
        line.clear();
        width = 0;
      }
      if (width > 0) {
        line += ' ';
        ++width;
      }
      line += word;
      width += word_width;
    }
    lines.push_back(line);
  }
  return lines;
}

std::string wrap_after(std::string_view first, std::string_view text, std::size_t columns) {
  const std::size_t indent = display_width(first);
  std::string wrapped(first);
  const std::vector<std::string> lines = wrap(text, columns > indent ? columns - indent : 1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) wrapped += '\n' + std::string(lines[i].empty() ? 0 : indent, ' ');
    wrapped += lines[i];
  }
  return wrapped;
}

std::string bar(double fraction, std::size_t columns) {
  static constexpr std::array kPart = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  const auto eighths = static_cast<std::size_t>(std::lround(clamped * static_cast<double>(columns) * 8));
  std::string drawn;
  for (std::size_t i = 0; i < eighths / 8; ++i) drawn += "█";
  return drawn + kPart.at(eighths % 8);
}

}  // namespace nest
