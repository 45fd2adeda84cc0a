#include "nest/option.h"

namespace nest {
namespace {

// Control characters: clip() takes them out of whatever a user wrote.
constexpr char kOpens = '\x01';
constexpr char kCloses = '\x02';

}  // namespace

std::string option(std::string_view name) { return kOpens + std::string(name) + kCloses; }

std::string plain_options(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c != kOpens && c != kCloses) plain += c;
  }
  return plain;
}

std::string flag_options(std::string_view text) {
  std::string told;
  bool inside = false;
  for (const char c : text) {
    if (c == kOpens) {
      inside = true;
      told += "--";
    } else if (c == kCloses) {
      inside = false;
    } else {
      told += inside && c == '_' ? '-' : c;
    }
  }
  return told;
}

}  // namespace nest
