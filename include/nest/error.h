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

#include "nest/option.h"

namespace nest {

class InputError : public std::runtime_error {
 public:
  // The message may mark the names of options (nest/option.h); what() shows them as they are.
  explicit InputError(const std::string& message, std::string excerpt = {})
      : std::runtime_error(plain_options(message)), marked_(message), excerpt_(std::move(excerpt)) {}

  // The message with its marks, for front ends that write options in a way of their own.
  const std::string& marked() const { return marked_; }

  // The offending lines of the input with a marker under the place, or empty; printed below the message.
  const std::string& excerpt() const { return excerpt_; }

 private:
  std::string marked_;
  std::string excerpt_;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace nest
