// Recipes of Megatron-Bridge (src/megatron/bridge/recipes) and factories of NeMo 2 (collections/llm/recipes) for models
// that nest has presets of.
#pragma once

#include <array>
#include <string_view>

namespace nest::launch {

struct RecipeName {
  std::string_view stem;  // "llama3_8b": of llama3_8b_pretrain_config, and NeMo 2's --factory
  std::string_view preset;
  bool bridge, nemo2;  // which of the two have it
};

// Where two stems are of one size, the first is the one to write.
inline constexpr std::array kRecipeNames = {RecipeName{"deepseek_v2_lite", "deepseek-v2-lite", true, true},
                                            RecipeName{"deepseek_v2", "deepseek-v2", true, true},
                                            RecipeName{"deepseek_v3", "deepseek-v3", true, true},
                                            RecipeName{"gemma_7b", "gemma-7b", false, true},
                                            RecipeName{"gemma2_9b", "gemma2-9b", false, true},
                                            RecipeName{"gemma2_27b", "gemma2-27b", false, true},
                                            RecipeName{"gpt3_175b", "gpt3-175b", true, true},
                                            RecipeName{"gpt_oss_20b", "gpt-oss-20b", true, true},
                                            RecipeName{"gpt_oss_120b", "gpt-oss-120b", true, true},
                                            RecipeName{"kimi_k2", "kimi-k2", true, false},
                                            RecipeName{"llama2_7b", "llama2-7b", true, true},
                                            RecipeName{"llama3_8b", "llama3-8b", true, true},
                                            RecipeName{"llama31_8b", "llama3-8b", true, true},
                                            RecipeName{"llama3_70b", "llama3-70b", true, true},
                                            RecipeName{"llama31_70b", "llama3-70b", true, true},
                                            RecipeName{"llama31_405b", "llama3-405b", true, true},
                                            RecipeName{"llama32_1b", "llama3.2-1b", true, true},
                                            RecipeName{"llama32_3b", "llama3.2-3b", true, true},
                                            RecipeName{"mistral_7b", "mistral-7b", false, true},
                                            RecipeName{"mixtral_8x7b", "mixtral-8x7b", false, true},
                                            RecipeName{"mixtral_8x22b", "mixtral-8x22b", false, true},
                                            RecipeName{"nemotron4_15b", "nemotron4-15b", false, true},
                                            RecipeName{"nemotron4_340b", "nemotron4-340b", false, true},
                                            RecipeName{"phi3_mini_4k_instruct", "phi3-mini", false, true},
                                            RecipeName{"qwen25_7b", "qwen2.5-7b", true, true},
                                            RecipeName{"qwen25_72b", "qwen2.5-72b", true, true},
                                            RecipeName{"qwen3_600m", "qwen3-0.6b", true, true},
                                            RecipeName{"qwen3_1p7b", "qwen3-1.7b", true, true},
                                            RecipeName{"qwen3_4b", "qwen3-4b", true, true},
                                            RecipeName{"qwen3_8b", "qwen3-8b", true, true},
                                            RecipeName{"qwen3_14b", "qwen3-14b", true, true},
                                            RecipeName{"qwen3_32b", "qwen3-32b", true, true},
                                            RecipeName{"qwen3_30b_a3b", "qwen3-30b-a3b", true, true},
                                            RecipeName{"qwen3_235b_a22b", "qwen3-235b-a22b", true, true},
                                            RecipeName{"starcoder2_15b", "starcoder2-15b", false, true}};

}  // namespace nest::launch
