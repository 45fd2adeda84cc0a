// Megatron-DeepSpeed: pretrain_gpt.py of before 2023 with words of its own, and DeepSpeed's configuration beside it.
#pragma once

#include "launch/options.h"
#include "launch/setup.h"

namespace nest::launch {

bool is_megatron_deepspeed(const LaunchOptions& options);

// What such a line says besides; the stack becomes megatron-deepspeed, with the attention that is switched on.
void read_megatron_deepspeed(const LaunchOptions& options, LaunchSetup& setup, const ReadNamedFile& read_file);

}  // namespace nest::launch
