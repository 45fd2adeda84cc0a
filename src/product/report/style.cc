#include "report/style.h"

#include <fmt/format.h>

namespace nest {
namespace {

// ANSI "select graphic rendition" codes: the sixteen basic ones, which follow the user's own palette.
std::string_view code(Ink ink) {
  switch (ink) {
    case Ink::plain: return "";
    case Ink::strong: return "1";
    case Ink::faint: return "2";
    case Ink::accent: return "36";
  }
  return "";
}

}  // namespace

std::string Style::paint(Ink ink, std::string_view text) const {
  if (!colour_ || ink == Ink::plain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code(ink), text);
}

}  // namespace nest
