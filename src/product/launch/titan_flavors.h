// The models that torchtitan ships, by its names and ours.
#pragma once

#include <array>

namespace nest::launch {

struct TitanFlavor {
  const char* name;
  const char* flavor;
  const char* preset;  // ours
};

inline constexpr std::array kTitanFlavors = std::to_array<TitanFlavor>({
    {"llama3", "8B", "llama3-8b"},
    {"llama3", "70B", "llama3-70b"},
    {"llama3", "405B", "llama3-405b"},
    {"qwen3", "0.6B", "qwen3-0.6b"},
    {"qwen3", "1.7B", "qwen3-1.7b"},
    {"qwen3", "4B", "qwen3-4b"},
    {"qwen3", "8B", "qwen3-8b"},
    {"qwen3", "14B", "qwen3-14b"},
    {"qwen3", "32B", "qwen3-32b"},
    {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
    {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
    {"deepseek_v3", "16B", "deepseek-v2-lite"},
    {"deepseek_v3", "236B", "deepseek-v2"},
    {"deepseek_v3", "671B", "deepseek-v3"},
    {"gpt_oss", "20b", "gpt-oss-20b"},
    {"gpt_oss", "120b", "gpt-oss-120b"},
});

// What models of a family cannot be told in torchtitan 0.2.2, by transformers' model_type: pipelines where their train spec has
// no pipelining_fn (models/*/__init__.py), contexts where their attention is FlexAttention (models/deepseek_v3: attn_type;
// infra/parallelize.py refuses it).
struct TitanFamily {
  const char* family;
  bool pipelines, contexts;
};

inline constexpr std::array kTitanFamilies = std::to_array<TitanFamily>({
    {"qwen3", false, true},
    {"qwen3_moe", false, true},
    {"deepseek_v2", true, false},
    {"deepseek_v3", true, false},
    {"kimi_k2", true, false},
    {"gpt_oss", false, false},
});

}  // namespace nest::launch
