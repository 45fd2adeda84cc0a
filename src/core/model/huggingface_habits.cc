#include "model/huggingface_habits.h"

#include <algorithm>
#include <array>

namespace nest::model {
namespace {

// Families whose attention has one weight for q, k and v.
constexpr std::array<std::string_view, 12> kFusedProjections = {"bloom",   "codegen",    "dbrx",        "falcon",
                                                                "gpt-sw3", "gpt2",       "gpt_bigcode", "gpt_neox",
                                                                "mpt",     "openai-gpt", "persimmon",   "phi3"};

}  // namespace

HuggingFaceHabits huggingface_habits(std::string_view family) {
  HuggingFaceHabits habits;
  const bool cohere = family.starts_with("cohere");
  habits.weighs_in_fp32 = family.starts_with("gemma") || family.ends_with("gemma") || family == "helium" ||
                          family == "olmo2" || family == "gpt_oss" || family == "qwen3_next" ||
                          family.starts_with("qwen3_5") || cohere;
  habits.writes_out_norms = habits.rotates_in_fp32 = cohere;
  habits.scales_logits = cohere || family.starts_with("granite") || family == "hyperclovax";
  habits.fused_projection =
      std::find(kFusedProjections.begin(), kFusedProjections.end(), family) != kFusedProjections.end();
  habits.copies_output = family == "gpt_neox" || family == "phi" || family == "phi3" || family == "falcon" ||
                         family == "nemotron" || family.starts_with("deepseek") || family == "kimi_k2";
  habits.repeats_keys = family == "falcon";
  return habits;
}

}  // namespace nest::model
