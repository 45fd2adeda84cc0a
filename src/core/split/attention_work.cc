#include "split/attention_work.h"

#include <algorithm>

#include "base/index.h"

namespace nest::split {

double attention_pairs(std::int64_t queries, std::int64_t keys, bool causal, std::int64_t window) {
  const auto q = real(queries);
  const auto k = real(keys);
  if (!causal) return window > 0 ? q * std::min(k, 2 * real(window) - 1) : q * k;
  const double w = window > 0 ? std::min(q, real(window)) : q;
  return w * (w + 1) / 2 + (q - w) * w;
}

AttentionWork attention_work(const model::AttentionShape& attention, const LocalSizes& sizes) {
  const std::int64_t queries = whole_number(sizes.length(attention.queries));
  const std::int64_t keys = attention.cross ? sizes.memory_sequence() : whole_number(sizes.length(attention.keys));
  const auto heads = real(sizes.extent(attention.heads));
  const double share = sizes.tokens() / real(sizes.sequence()) * attention.batches;  // micro-batch / cp
  const double pairs = (attention.chunk > 0 && attention.chunk < queries
                            ? real(queries / attention.chunk) * attention_pairs(attention.chunk, attention.chunk,
                                                                                attention.causal, attention.window) +
                                  attention_pairs(queries % attention.chunk, queries % attention.chunk,
                                                  attention.causal, attention.window)
                            : attention_pairs(queries, keys, attention.causal, attention.window)) *
                       share;
  AttentionWork work;
  work.flops = 2 * pairs * heads * real(attention.qk_dim + attention.value_dim);
  // Unfused kernels do not skip masked pairs: scores are written, read and written by the softmax, and read again.
  if (!attention.flash) {
    const bool usual = attention.queries == model::Length{} && attention.batches == 1;
    const double rows = usual ? sizes.tokens() : share * real(queries);
    work.score_elements = 4 * rows * real(keys) * heads;
  }
  return work;
}

}  // namespace nest::split
