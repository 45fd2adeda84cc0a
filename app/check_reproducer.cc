#include "check_reproducer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "output.h"
#include "report/check_report.h"

namespace nest {
namespace {

constexpr const char* kFile = "nest-unsound-plan.json";

}  // namespace

std::string write_reproducer(const UnsoundPlan& bug) {
  try {
    write_file_atomically(kFile, reproducer_text(bug.plan(), bug.violations()));
  } catch (const InputError& error) {
    return fmt::format(" ({})", error.what());
  }
  return fmt::format("; the plan is in {}, for `nest check`", kFile);
}

}  // namespace nest
