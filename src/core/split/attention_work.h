// Arithmetic of the attention core on one device.
//
// With a causal mask query i sees min(i, window) keys, so a sequence of s has P = w(w+1)/2 + (s-w)w pairs, w = min(s,
// window) (s without a window): half of s^2, not all of it. Each pair and head costs 2(d_qk + d_v) FLOPs.
// Context-parallel ranks share the pairs equally, as balanced (zigzag) orders do.
#pragma once

#include "model/graph.h"
#include "split/sizes.h"

namespace nest {

struct AttentionWork {
  double flops = 0;        // forward
  double score_bytes = 0;  // elements of scores that an unfused kernel writes and reads; 0 when fused
};

AttentionWork attention_work(const AttentionShape& attention, const LocalSizes& sizes);

// Pairs (query, key) of one sequence.
double attention_pairs(std::int64_t queries, std::int64_t keys, bool causal, std::int64_t window);

}  // namespace nest
