// Arithmetic of the attention core on one device.
//
// Pairs of a query and a key that it sees, of s queries and k keys:
//     causal       w(w+1)/2 + (s-w)w, w = min(s, window), s without a window: query i sees the last min(i, w) keys
//     not causal   s min(k, 2 window - 1), s k without a window
//     in chunks    those of every chunk of the sequence, and of the rest
// Each pair and head costs 2(d_qk + d_v) FLOPs. Context-parallel ranks share the pairs equally, as balanced (zigzag)
// orders do.
#pragma once

#include "model/graph.h"
#include "split/sizes.h"

namespace nest::split {

struct AttentionWork {
  double flops = 0;           // forward
  double score_elements = 0;  // of scores that an unfused kernel writes and reads; 0 when fused
};

AttentionWork attention_work(const model::AttentionShape& attention, const LocalSizes& sizes);

// Pairs (query, key) of one sequence.
double attention_pairs(std::int64_t queries, std::int64_t keys, bool causal, std::int64_t window);

}  // namespace nest::split
