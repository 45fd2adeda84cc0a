// The frameworks that nest reads launch lines of and writes plans for.
//
// What each can run, and what is written for it, is a row of exporter/framework_rules.h and exporter/exporters.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nest::launch {

// torchtitan: 0.2.2, whose configuration is TOML; torchtitan_main: what came after it, whose configuration is Python.
enum class Framework : std::uint8_t { megatron, nemo, deepspeed, torchtitan, torchtitan_main, fsdp };

inline constexpr std::array kFrameworkNames = {"megatron",        "nemo", "deepspeed", "torchtitan",
                                               "torchtitan-main", "fsdp"};

constexpr bool is_torchtitan(Framework framework) {
  return framework == Framework::torchtitan || framework == Framework::torchtitan_main;
}

constexpr const char* to_string(Framework framework) { return kFrameworkNames[static_cast<std::size_t>(framework)]; }

}  // namespace nest::launch
