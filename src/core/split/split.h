// Whether a layer can be divided as asked (Split, nest/strategy.h).
#pragma once

#include <cstdint>
#include <string>

#include "model/build.h"
#include "model/graph.h"
#include "nest/strategy.h"

namespace nest::split {

// One micro-batch of one replica.
struct RunShape {
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 0;
  std::int64_t encoder_sequence = 0;  // encoder-decoder models; 0: same as sequence
  double routing_imbalance = 1.0;     // rows on the fullest expert rank over the average
};

// Whether the layer may stay whole (Layer::may_stay_whole) and does: tp does not divide one of its axes evenly.
bool stays_whole(const model::Layer& layer, const Split& split);

// Empty when the split is legal for every layer of the model; else the reason, in one sentence.
std::string refuse_split(const model::Model& model, const RunShape& shape, const Split& split);

}  // namespace nest::split
