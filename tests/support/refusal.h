// What a reader says to wrong input.
#pragma once

#include <functional>
#include <string>

namespace nest::test {

// The message of the InputError that `call` throws; `otherwise` where it throws none.
std::string refusal_of(const std::function<void()>& call, const std::string& otherwise = "accepted");

}  // namespace nest::test
