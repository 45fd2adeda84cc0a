#include "cost/attention_size.h"

#include <algorithm>

#include "base/index.h"

namespace nest::cost {

AttentionSize attention_size(const split::LocalOperator& op, const model::Layer& layer, const split::RunShape& run,
                             std::int64_t cp) {
  const model::AttentionShape& shape = op.source->attention;
  const std::int64_t memory = run.encoder_sequence > 0 ? run.encoder_sequence : run.sequence;
  const auto sequence = real(layer.encoder ? memory : run.sequence);
  const auto length = [&](const model::Length& of) { return of.size * (of.per_sequence ? sequence : 1.0); };
  AttentionSize size;
  size.sequences = real(run.micro_batch) * shape.batches;
  size.heads = op.heads;
  size.queries = length(shape.queries) / real(cp);
  size.keys = shape.cross ? real(memory) : length(shape.keys);
  if (shape.chunk > 0 && real(shape.chunk) < size.keys) {
    size.sequences *= size.keys / real(shape.chunk);
    size.queries *= real(shape.chunk) / size.keys;
    size.keys = real(shape.chunk);
  }
  size.qk_dim = shape.qk_dim;
  size.value_dim = shape.value_dim;
  size.window = shape.window;
  size.causal = shape.causal;
  size.fused = shape.flash;
  const auto& weights = op.source->weights;
  size.sinks = std::any_of(weights.begin(), weights.end(),
                           [](const model::Weight& weight) { return weight.name == "attention.sinks"; });
  return size;
}

}  // namespace nest::cost
