// The models that torchtitan's main ships, by its names and ours: facts of its source at b5bcd76c6 (2026-08-21).
//
// Configurations there are Python functions since 2026-02-23 (models/*/config_registry.py); a flavor that has none of its own
// is built on that of a sister, with the model exchanged (models/*/__init__.py: model_registry).
#pragma once

#include <array>

namespace nest::launch {

struct TitanMainFlavor {
  const char* module;  // below torchtitan.models
  const char* flavor;
  const char* config;  // function of config_registry
  const char* preset;  // ours
};

inline constexpr std::array kTitanMainFlavors = std::to_array<TitanMainFlavor>({
    {"llama3", "1B", "llama3_8b", "llama3.2-1b"},
    {"llama3", "3B", "llama3_8b", "llama3.2-3b"},
    {"llama3", "8B", "llama3_8b", "llama3-8b"},
    {"llama3", "70B", "llama3_70b", "llama3-70b"},
    {"llama3", "405B", "llama3_405b", "llama3-405b"},
    {"qwen3", "0.6B", "qwen3_0_6b", "qwen3-0.6b"},
    {"qwen3", "1.7B", "qwen3_1_7b", "qwen3-1.7b"},
    {"qwen3", "4B", "qwen3_1_7b", "qwen3-4b"},
    {"qwen3", "8B", "qwen3_14b", "qwen3-8b"},
    {"qwen3", "14B", "qwen3_14b", "qwen3-14b"},
    {"qwen3", "32B", "qwen3_32b", "qwen3-32b"},
    {"qwen3", "30B-A3B", "qwen3_30b_a3b", "qwen3-30b-a3b"},
    {"qwen3", "235B-A22B", "qwen3_30b_a3b", "qwen3-235b-a22b"},
    {"deepseek_v3", "16B", "deepseek_v3_16b", "deepseek-v2-lite"},
    {"deepseek_v3", "236B", "deepseek_v3_671b", "deepseek-v2"},
    {"deepseek_v3", "671B", "deepseek_v3_671b", "deepseek-v3"},
    {"gpt_oss", "20b", "gpt_oss_20b", "gpt-oss-20b"},
    {"gpt_oss", "120b", "gpt_oss_120b", "gpt-oss-120b"},
});

// What its configurations say; a field that one does not name has torchtitan's own default.
struct TitanMainConfig {
  const char* name;
  const char* module;
  const char* flavor;
  int sequences, context;      // of a micro-batch; tokens of a sequence
  int tensor, expert;          // degrees
  const char* schedule;        // of a pipeline
  const char* recompute;       // activation_checkpoint
  const char* compiled;        // components; empty: compile is off
  bool float8, async_tensors;  // Float8LinearConverter, enable_async_tensor_parallel
};

inline constexpr std::array kTitanMainConfigs = std::to_array<TitanMainConfig>({
    {"llama3_8b", "llama3", "8B", 1, 8192, 1, 1, "1F1B", "selective", "", false, false},
    {"llama3_70b", "llama3", "70B", 8, 8192, 8, 1, "1F1B", "full", "", false, false},
    {"llama3_405b", "llama3", "405B", 2, 8192, 8, 1, "1F1B", "full", R"("model", "loss")", true, true},
    {"qwen3_0_6b", "qwen3", "0.6B", 4, 4096, 1, 1, "1F1B", "selective", "", false, false},
    {"qwen3_1_7b", "qwen3", "1.7B", 4, 4096, 1, 1, "1F1B", "selective", "", false, false},
    {"qwen3_14b", "qwen3", "14B", 4, 4096, 1, 1, "1F1B", "full", "", false, false},
    {"qwen3_32b", "qwen3", "32B", 2, 4096, 1, 1, "1F1B", "full", "", false, false},
    {"qwen3_30b_a3b", "qwen3", "30B-A3B", 2, 4096, 1, 1, "1F1B", "full", "", false, false},
    {"deepseek_v3_16b", "deepseek_v3", "16B", 4, 4096, 1, 8, "Interleaved1F1B", "selective", R"("loss")", false, false},
    {"deepseek_v3_671b", "deepseek_v3", "671B", 4, 4096, 1, 2, "Interleaved1F1B", "selective", R"("loss")", false,
     false},
    {"gpt_oss_20b", "gpt_oss", "20b", 1, 8192, 1, 1, "1F1B", "full", "", false, false},
    {"gpt_oss_120b", "gpt_oss", "120b", 1, 8192, 1, 1, "1F1B", "full", "", false, false},
});

}  // namespace nest::launch
