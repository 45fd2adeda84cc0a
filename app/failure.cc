#include "failure.h"

#include <fmt/format.h>

#include "nest/error.h"
#include "nest/text.h"
#include "output.h"

namespace nest::app {

std::string_view kind_of(ExitCode code) {
  switch (code) {
    case kExitInput: return "input";
    case kExitNoPlan: return "no_plan";
    case kExitLimit: return "limit";
    case kExitOk:
    case kExitBug: break;
  }
  return "bug";
}

std::string to_json(const Failure& failure) {
  std::string text = fmt::format(
      "{{\n  \"schema\": \"nest.error/1\",\n  \"error\": {{\n    \"kind\": {},\n    \"exit\": {},\n    \"message\": {}",
      json_string(kind_of(failure.code)), static_cast<int>(failure.code), json_string(failure.message));
  if (!failure.excerpt.empty()) text += ",\n    \"excerpt\": " + json_string(failure.excerpt);
  if (!failure.hint.empty()) text += ",\n    \"hint\": " + json_string(failure.hint);
  return text + "\n  }\n}\n";
}

ExitCode report_failure(const Failure& failure, bool json) {
  const std::size_t columns = stderr_columns();
  const std::string told = columns > 0 ? wrap_after("nest: ", failure.message, columns) : "nest: " + failure.message;
  write_stderr(told + '\n');
  if (!failure.hint.empty()) write_stderr(failure.hint + '\n');
  if (!failure.excerpt.empty()) write_stderr(fmt::format("\n{}\n", failure.excerpt));
  if (!json) return failure.code;
  try {
    write_stdout(to_json(failure));
  } catch (const InputError&) {  // standard output may be what failed
  }
  return failure.code;
}

}  // namespace nest::app
