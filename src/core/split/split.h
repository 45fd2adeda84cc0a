// How one layer is divided over devices, and whether that is possible.
//
//   tp   tensor parallel: heads, feed-forward columns and vocabulary are divided (Megatron column -> row)
//   sp   with tp: what lies between the tensor-parallel regions is divided along the sequence
//   cp   context parallel: the sequence is divided; keys and values travel around a ring
//   ep   expert parallel: the routed experts are spread over ep devices
//   etp  tensor parallelism inside an expert: tp (Megatron's default), or 1: experts stay whole and are spread over the
//        tensor-parallel ranks as well, ep * tp ranks in all
#pragma once

#include <cstdint>
#include <string>

#include "model/build.h"
#include "model/graph.h"

namespace nest {

struct Split {
  std::int64_t tp = 1;
  bool sp = false;
  std::int64_t cp = 1;
  std::int64_t ep = 1;
  std::int64_t etp = 0;  // 0: same as tp

  std::int64_t expert_tp() const { return etp == 0 ? tp : etp; }
  // Ranks that hold different experts: what Megatron calls the expert-parallel size.
  std::int64_t expert_ranks() const { return ep * (tp / expert_tp()); }
  bool operator==(const Split&) const = default;
};

// One micro-batch of one replica.
struct RunShape {
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 0;
  std::int64_t encoder_sequence = 0;  // encoder-decoder models; 0: same as sequence
  double routing_imbalance = 1.0;     // rows on the fullest expert rank over the average
};

// Whether the layer may stay whole (Layer::may_stay_whole) and does: tp does not divide one of its axes evenly.
bool stays_whole(const Layer& layer, const Split& split);

// Empty when the split is legal for every layer of the model; else the reason, in one sentence.
std::string refuse_split(const Model& model, const RunShape& shape, const Split& split);

}  // namespace nest
