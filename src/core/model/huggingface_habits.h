// How transformers' own modules differ between families in what they keep, beyond what the architecture says. Internal
// to the graph builder; used by the huggingface stack only. Each line was checked against a measured layer of a family of
// that kind; which families share it is what their modules say.
#pragma once

#include <string_view>

namespace nest::model {

struct HuggingFaceHabits {
  bool weighs_in_fp32 = false;  // RMSNorm multiplies by its weight before casting back: the fp32 product is kept
  bool writes_out_norms =
      false;  // LayerNorm in Python too, as RMSNorm is: the input less its mean is made, and kept, twice
  bool fused_projection = false;  // q, k and v are views of one product's result: who keeps one keeps all
  bool rotates_in_fp32 = false;
  bool scales_logits = false;  // by a number, before the loss
  bool copies_output =
      false;  // q and k leave a concatenation in [batch, head, position] order; the output is copied back
  bool repeats_keys = false;  // keys and values are expanded to all heads
};

HuggingFaceHabits huggingface_habits(std::string_view family);

}  // namespace nest::model
