// What can go wrong, and who is told.
//
// InputError      the caller's input is wrong: a file, a key, an option. It carries one message that names the place,
//                 the value seen and what is allowed.
// InternalError   a broken promise inside nest itself: a bug.
//
// Outcomes such as "no plan fits" or "time limit reached" are results, never exceptions.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

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

}  // namespace nest
