#include <array>

#include "command.h"

namespace nest::app {

std::span<const AddCommand> command_table() {
  static constexpr std::array<AddCommand, 13> kCommands = {
      add_plan,   add_show,   add_eval,      add_compare, add_sweep, add_check,      add_simulate,
      add_export, add_import, add_calibrate, add_schema,  add_mcp,   add_completion,
  };
  return kCommands;
}

}  // namespace nest::app
