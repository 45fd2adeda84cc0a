// Whether a layer can be divided as asked (Split, nest/strategy.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/index.h"
#include "model/build.h"
#include "model/graph.h"
#include "nest/strategy.h"

namespace nest::split {

// Empty, or why context ranks cannot exchange as the split says: whoever trades heads needs as many, of keys too.
std::string refuse_context(const model::Model& model, const Split& split);

// One micro-batch of one replica.
struct RunShape {
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 0;
  std::int64_t encoder_sequence = 0;  // encoder-decoder models; 0: same as sequence
  double routing_imbalance = 1.0;     // rows on the fullest expert rank over the average
};

// Tokens of a micro-batch that one rank holds between operators: shared by the context ranks and, under sp, by the
// tensor ranks.
inline double stream_tokens(std::int64_t micro_batch, std::int64_t sequence, const Split& split) {
  return real(micro_batch) * real(sequence) / real(split.cp) / (split.sp ? real(split.tp) : 1.0);
}

// Whether the layer may stay whole (Layer::may_stay_whole) and does: tp does not divide one of its axes evenly.
bool stays_whole(const model::Layer& layer, const Split& split);

// Empty when the split is legal for every layer of the model; else the reason, in one sentence.
std::string refuse_split(const model::Model& model, const RunShape& shape, const Split& split);

}  // namespace nest::split
