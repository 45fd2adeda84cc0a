// Overrides of Megatron-Bridge's recipes and of NeMo 2's factories as a setup.
#pragma once

#include <string>
#include <string_view>

#include "launch/override_text.h"
#include "launch/setup.h"

namespace nest::launch {

// `command` says how many ranks are started and with which environment; its arguments are those that `overrides` are of.
LaunchSetup read_overrides(std::string_view source, const Overrides& overrides, const TrainingCommand& command,
                           const ReadNamedFile& read_file);

// Options of Megatron's as overrides of Megatron-Bridge: "--sequence-parallel --micro-batch-size 2" is
// "model.sequence_parallel=true train.micro_batch_size=2". What says how much overlaps is a field of comm_overlap where that
// is an object, and of the model and of ddp otherwise.
std::string override_words(std::string_view options, bool overlap_object);

}  // namespace nest::launch
