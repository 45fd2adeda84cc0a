// Text to double as std::from_chars does it, also where the standard library knows it for whole numbers only (libc++
// before 20, of which the browser's build is made). Both round correctly: the same text is the same number everywhere.
#pragma once

#include <charconv>

namespace nest {

std::from_chars_result real_from_chars(const char* begin, const char* end, double& value);

// The same by strtod, for libraries without it. The process's locale must write numbers as C does.
std::from_chars_result real_by_strtod(const char* begin, const char* end, double& value);

}  // namespace nest
