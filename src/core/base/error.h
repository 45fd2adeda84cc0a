// Errors (nest/error.h), and the check of promises inside nest. InputErrors are caught once, at the program's edge
// (exit 2); NEST_CHECK throws InternalError (exit 1) and is kept in release builds.
#pragma once

#include <string>

#include "nest/error.h"

namespace nest {

[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& message);

}  // namespace nest

// Of this file without its folders, where the compiler has that (g++ from 12 on, clang): programs do not know where they
// were built.
#ifdef __FILE_NAME__
#define NEST_FILE_NAME __FILE_NAME__
#else
#define NEST_FILE_NAME __FILE__
#endif

#define NEST_CHECK(condition, message) \
  ((condition) ? static_cast<void>(0) : ::nest::fail_check(#condition, NEST_FILE_NAME, __LINE__, (message)))
