// Values of options, refused by the option's name where they are out of range or no known word.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "nest/range.h"

namespace nest {

void require_range(std::string_view name, std::int64_t value, const IntegerRange& range);
void require_range(std::string_view name, const std::optional<std::int64_t>& value, const IntegerRange& range);

// The same where 0 stands for what is not given.
void require_given(std::string_view name, std::int64_t value, const IntegerRange& range);

// Not negative; 0: none.
void require_seconds(std::string_view name, double seconds);

// From 0 to 100.
void require_percent(std::string_view name, double percent);

// Position of the word among those allowed.
std::size_t require_word(std::string_view name, std::string_view word, std::span<const std::string> words);

}  // namespace nest
