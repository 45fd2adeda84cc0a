// Architecture -> operator graph, as a given software stack would run it.
#pragma once

#include "model/graph.h"

namespace nest::model {

// Whose kernels run the model. They compute the same function but keep and move different tensors:
//   megatron     Megatron-Core with Transformer Engine: fused gated activation; sequence-parallel aware
//   plain        PyTorch modules: fused QKV projection, fused norms, separate activation kernels
//   huggingface  transformers' modules as written: eager RMSNorm in fp32, separate projections, masks where needed
//   torchtitan   FSDP2 reference code: plain kernels with separate projections
enum class Stack : std::uint8_t { megatron, plain, huggingface, torchtitan };

struct Implementation {
  Stack stack = Stack::megatron;
  bool flash_attention = true;  // false: scores are written to memory, as older stacks do
  bool dropout = false;         // train with the dropout that the config states, and keep its masks
  int activation_bytes = 2;     // bf16 and fp16: 2, fp32: 4
  std::int64_t sequence = 0;    // decides where an explicit mask is needed; 0: the model's default
  bool shared_expert_overlap =
      false;                    // shared experts run beside the all-to-all, on a gathered input that they keep (sp)
  std::int64_t mtp_layers = 0;  // depths that predict further tokens (mtp.cc)
  // Where products are of 8 or 4 bits, bytes per element of what is kept for backward; 0: tensors as they are. Every
  // linear quantises its input for itself, so that readers of one tensor share nothing (Operator::keeps_original).
  double kept_input_bytes = 0;
  double kept_attention_bytes = 0;  // of queries, keys, values and the result of attention in 8 bits
  // huggingface: keys and values go through the cache for generation, which copies them. Trainer switches it off; a loop
  // of one's own has it unless the config says otherwise.
  bool cache = false;
};

Model build_model(const Architecture& architecture, const Implementation& implementation = {});

// Empty, or why depths that predict further tokens cannot be added.
std::string refuse_mtp(const Architecture& architecture, std::int64_t depths);

const char* to_string(Stack stack);

}  // namespace nest::model
