// Words that other tools use for what nest calls otherwise.
#pragma once

#include <string_view>

namespace nest::app {

// "--tensor-model-parallel-size" -> "--tp"; empty where nest knows none. Case and underscores do not matter.
std::string_view own_option(std::string_view foreign);

// "estimate" -> "eval".
std::string_view own_subcommand(std::string_view foreign);

}  // namespace nest::app
