// What a profile says of whole layers. Internal to cost.
#pragma once

#include <cstdint>

#include "cost/job.h"
#include "cost/layer_price.h"

namespace nest::cost {

// The kind of the fused graph that stands where `kind` stands in the stack's own graph.
const model::Layer& fused_layer(const Job& job, int kind);

// Measured times of a layer take the place of computed ones, where there are any.
void override_layer(const Job& job, const model::Layer& layer, const Split& split, std::int64_t micro_batch,
                    LayerPrice& price);

}  // namespace nest::cost
