#include "report/json.h"

#include <cmath>
#include <cstdint>

#include "nest/text.h"

namespace nest::report {

Json json_number(double value) {
  constexpr double kExact = 0x1p53;  // beyond it not every integer is a double, and the digits would be invented
  if (std::abs(value) <= kExact && value == std::floor(value)) return static_cast<std::int64_t>(value);
  return value;
}

std::string to_text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace nest::report

namespace nest {

std::string json_string(std::string_view text) {
  return report::Json(std::string(text)).dump(-1, ' ', false, report::Json::error_handler_t::replace);
}

}  // namespace nest
