#include "door/option_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "nest/option.h"

namespace nest {

void fail_range(const std::string& name, const std::string& text, const IntegerRange& range) {
  throw InputError(fmt::format("{}: \"{}\" is not a whole number in {} … {}", name, clip(text, 40),
                               format_integer(range.low), format_integer(range.high)));
}

void require_range(std::string_view name, std::int64_t value, const IntegerRange& range) {
  if (!range.holds(value)) fail_range(option(name), std::to_string(value), range);
}

void require_range(std::string_view name, const std::optional<std::int64_t>& value, const IntegerRange& range) {
  if (value) require_range(name, *value, range);
}

void require_given(std::string_view name, std::int64_t value, const IntegerRange& range) {
  if (value != 0) require_range(name, value, range);
}

void require_seconds(std::string_view name, double seconds) {
  constexpr double kMost = 1e9;  // thirty years
  if (seconds >= 0 && seconds <= kMost) return;
  throw InputError(fmt::format("{}: {} is no number of seconds in 0 … {:g}", option(name), seconds, kMost));
}

void require_percent(std::string_view name, double percent) {
  if (percent >= 0 && percent <= 100) return;
  throw InputError(fmt::format("{}: {} is no number of percent in 0 … 100", option(name), percent));
}

std::size_t require_word(std::string_view name, std::string_view word, std::span<const std::string> words) {
  const std::optional<std::size_t> found = find_word(word, words);
  if (!found) {
    throw InputError(fmt::format("{}: \"{}\" is not one of {}{}", option(name), clip(word, 40), join_words(words, "or"),
                                 did_you_mean(word, words)));
  }
  return *found;
}

}  // namespace nest
