// $((a * b)): whole numbers, variables, + - * / % and parentheses.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace nest::launch {

// Looks a variable up; nothing when it is not a known whole number.
using NumberOf = std::function<std::optional<std::int64_t>(std::string_view name)>;

// Nothing when the text is anything else, divides by zero or overflows.
std::optional<std::int64_t> evaluate_arithmetic(std::string_view text, const NumberOf& number_of);

}  // namespace nest::launch
