#include "base/error.h"

#include <fmt/format.h>

namespace nest {

void fail_check(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: check failed: {}: {}", file, line, condition, message));
}

}  // namespace nest
