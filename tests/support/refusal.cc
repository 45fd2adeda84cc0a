#include "test_support/refusal.h"

#include "base/error.h"

namespace nest::test {

std::string refusal_of(const std::function<void()>& call, const std::string& otherwise) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return otherwise;
}

}  // namespace nest::test
