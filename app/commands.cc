#include <array>

#include "command.h"

namespace nest {

std::span<const AddCommand> command_table() {
  static constexpr std::array<AddCommand, 5> kCommands = {
      add_plan, add_show, add_eval, add_calibrate, add_completion,
  };
  return kCommands;
}

}  // namespace nest
