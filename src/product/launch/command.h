// The training program inside a launch script, with what starts it taken off: variables, numactl, nsys, containers,
// srun, mpirun, bash -c, torchrun, deepspeed, accelerate.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/shell.h"

namespace nest::launch {

// A number that the text gives, or why it does not.
struct LaunchCount {
  std::optional<std::int64_t> value;
  std::string unknown;  // "$NNODES", "gpu" …: given, but not as a number
};

struct TrainingCommand {
  std::string program;  // "pretrain_gpt.py", "torchtitan.train"; empty for a file of arguments
  std::vector<ShellWord> arguments;
  bool accelerate = false;          // started by `accelerate launch`,
  std::vector<ShellWord> launcher;  // whose options these are: names with underscores, each followed by its value
  LaunchCount hosts, ranks_per_host, ranks;  // ranks: in all, where that is what was given
  ShellVariables environment;                // variables that the script sets
  std::vector<std::string> notes;
  int line = 0;

  // Ranks in all; nothing when the text does not say.
  std::optional<std::int64_t> world() const;
};

// Reads a file that the text names (a hostfile); nothing when it cannot.
using ReadNamedFile = std::function<std::optional<std::string>(const std::string& path)>;

// Finds the command in a script. Throws InputError, naming `source`, when nothing in it starts a training program.
TrainingCommand find_training_command(std::string_view source, std::string_view text, const ShellVariables& variables,
                                      const ReadNamedFile& read_file);

}  // namespace nest::launch
