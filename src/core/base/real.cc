#include "base/real.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>
#include <version>

namespace nest {

std::from_chars_result real_from_chars(const char* begin, const char* end, double& value) {
#ifdef __cpp_lib_to_chars
  return std::from_chars(begin, end, value);
#else
  return real_by_strtod(begin, end, value);
#endif
}

// strtod takes more than from_chars does: space and + before the number, and hexadecimal digits.
std::from_chars_result real_by_strtod(const char* begin, const char* end, double& value) {
  const char* digits = begin != end && *begin == '-' ? begin + 1 : begin;
  const auto is_digit = [&](const char* at) { return at != end && *at >= '0' && *at <= '9'; };
  const bool word = digits != end && (*digits == 'i' || *digits == 'I' || *digits == 'n' || *digits == 'N');
  const bool number = is_digit(digits) || (digits != end && *digits == '.' && is_digit(digits + 1));
  if (!word && !number) return {begin, std::errc::invalid_argument};
  const bool hexadecimal = end - digits > 1 && *digits == '0' && (digits[1] == 'x' || digits[1] == 'X');
  const std::string text(begin, hexadecimal ? digits + 1 : end);
  char* rest = nullptr;
  errno = 0;
  const double read = std::strtod(text.c_str(), &rest);
  if (rest == text.c_str()) return {begin, std::errc::invalid_argument};
  const char* stopped = begin + (rest - text.c_str());
  if (errno == ERANGE && (read == 0 || std::isinf(read))) return {stopped, std::errc::result_out_of_range};
  value = read;
  return {stopped, std::errc()};
}

}  // namespace nest
