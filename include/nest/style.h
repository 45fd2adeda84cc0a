// Colour and weight of text on a terminal, decided once by whoever owns the terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nest {

enum class Ink : std::uint8_t {
  plain,
  strong,  // the answer
  faint,   // headings, units, what may be skipped
  accent,  // bars and names
};

class Style {
 public:
  explicit Style(bool colour = false) : colour_(colour) {}
  std::string paint(Ink ink, std::string_view text) const;

 private:
  bool colour_;
};

}  // namespace nest
