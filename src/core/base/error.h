// What can go wrong, and who is told.
//
// InputError     the user's input is wrong: a file, a key, a flag. It carries one message that names the place, the
// value
//                seen and what is allowed. Thrown by readers and validators, caught once at the program's edge (exit
//                2).
// NEST_CHECK     a broken promise inside nest itself: a bug (exit 1). Kept in release builds.
// Outcomes such as "no plan fits" or "time limit reached" are results, never exceptions.
#pragma once

#include <stdexcept>
#include <string>

namespace nest {

class InputError : public std::runtime_error {
 public:
  explicit InputError(const std::string& message, std::string excerpt = {})
      : std::runtime_error(message), excerpt_(std::move(excerpt)) {}

  // The offending lines of the input with a marker under the place, or empty; printed below the message.
  const std::string& excerpt() const { return excerpt_; }

 private:
  std::string excerpt_;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& message);

}  // namespace nest

#define NEST_CHECK(condition, message) \
  ((condition) ? static_cast<void>(0) : ::nest::fail_check(#condition, __FILE__, __LINE__, (message)))
