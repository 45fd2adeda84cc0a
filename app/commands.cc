#include <array>

#include "command.h"

namespace nest {

std::span<const AddCommand> command_table() {
  static constexpr std::array<AddCommand, 9> kCommands = {
      add_plan, add_show, add_eval, add_check, add_simulate, add_export, add_import, add_calibrate, add_completion,
  };
  return kCommands;
}

}  // namespace nest
