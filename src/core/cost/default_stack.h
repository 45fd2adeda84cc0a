// Which software is assumed where nobody names one.
//
//     device                    precision      dense            experts            experts and latent attention
//     NVIDIA, Hopper and newer  bf16           B                B-moe              B-moe-mla
//                               fp8, Hopper    B-fp8            B-moe              B-moe-mla
//                               fp8, newer     B-mxfp8          B-moe-mxfp8        B-moe-mla-mxfp8
//                               fp4            B-nvfp4          B-moe-mxfp8        B-moe-mla-mxfp8
//     any other, or precision   any other      megatron-core
//
// with B = megatron-bridge-2026: what NVIDIA's recipes of 2026 run. A device says its family in its file.
#pragma once

#include <string>

#include "cluster/device.h"
#include "model/architecture.h"
#include "nest/strategy.h"

namespace nest::cost {

struct StackChoice {
  std::string name;    // of a preset
  std::string reason;  // "for a dense model in bf16 on hopper"
};

StackChoice default_stack(const model::Architecture& architecture, const cluster::Device& device, Precision precision);

}  // namespace nest::cost
