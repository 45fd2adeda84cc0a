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

// Position of the word among those allowed.
std::size_t require_word(std::string_view name, std::string_view word, std::span<const std::string> words);

}  // namespace nest
