#include "model/huggingface_habits.h"

namespace nest::model {

HuggingFaceHabits huggingface_habits(std::string_view family) {
  HuggingFaceHabits habits;
  habits.weighs_in_fp32 =
      family.starts_with("gemma") || family == "olmo2" || family == "gpt_oss" || family.starts_with("cohere");
  habits.writes_out_norms = family.starts_with("cohere");
  habits.fused_projection = family == "gpt2" || family == "bloom";
  habits.copies_output = family == "gpt_neox" || family == "phi" || family == "phi3" || family == "falcon" ||
                         family == "nemotron" || family.starts_with("deepseek") || family == "kimi_k2";
  habits.repeats_keys = family == "falcon";
  return habits;
}

}  // namespace nest::model
