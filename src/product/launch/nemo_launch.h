// Overrides of Megatron-Bridge's recipes and of NeMo 2's factories as a setup.
#pragma once

#include <string_view>

#include "launch/override_text.h"
#include "launch/setup.h"

namespace nest::launch {

// `command` says how many ranks are started and with which environment; its arguments are those that `overrides` are of.
LaunchSetup read_overrides(std::string_view source, const Overrides& overrides, const TrainingCommand& command,
                           const ReadNamedFile& read_file);

}  // namespace nest::launch
