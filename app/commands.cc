#include <array>

#include "command.h"

namespace nest::app {

std::span<const AddCommand> command_table() {
  static constexpr std::array<AddCommand, 15> kCommands = {
      add_plan,   add_show,      add_eval,   add_compare, add_sweep,      add_check, add_simulate, add_export,
      add_import, add_calibrate, add_schema, add_mcp,     add_completion, add_man,   add_help,
  };
  return kCommands;
}

}  // namespace nest::app
