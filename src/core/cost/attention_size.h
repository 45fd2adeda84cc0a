// What one device computes of an attention core: its shape as kernels are called with it.
#pragma once

#include "cost/operator_time.h"
#include "split/local_layer.h"

namespace nest::cost {

// `op` is an attention of `layer`, made local for `run` and a split over `cp` context-parallel ranks. Whether scores
// meet dropout is for the software to say.
AttentionSize attention_size(const split::LocalOperator& op, const model::Layer& layer, const split::RunShape& run,
                             std::int64_t cp);

}  // namespace nest::cost
