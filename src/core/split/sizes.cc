#include "split/sizes.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"
#include "base/index.h"

namespace nest::split {
namespace {

// Megatron pads the vocabulary so that every rank's share is a multiple of this.
constexpr std::int64_t kVocabularyMultiple = 128;

std::int64_t encoder_length(const RunShape& shape) {
  return shape.encoder_sequence > 0 ? shape.encoder_sequence : shape.sequence;
}

}  // namespace

std::int64_t whole_number(double value) {
  if (!(std::abs(value) < 0x1p62)) {
    throw InputError("the sizes given multiply to more than 2^62: no such model or run exists");
  }
  return std::llround(value);
}

LocalSizes::LocalSizes(const model::Layer& layer, const RunShape& shape, const Split& split,
                       const model::Implementation& implementation)
    : split_(split),
      implementation_(implementation),
      micro_batch_(shape.micro_batch),
      sequence_(layer.encoder ? encoder_length(shape) : shape.sequence),
      memory_sequence_(encoder_length(shape)),
      tokens_(real(micro_batch_) * real(sequence_) / real(split.cp)),
      memory_(real(micro_batch_) * real(memory_sequence_) / real(split.cp)),
      routed_(0),
      whole_(stays_whole(layer, split)) {
  // Every rank routes its part of the sequence, T/tp tokens of a replica's T per context rank; experts that are divided
  // over etp ranks see the tokens of all of these: K T etp/tp rows.
  const double share = real(split.expert_tp()) / real(split.tp);
  routed_ = tokens_ * real(layer.top_k) * share * shape.routing_imbalance;
}

std::int64_t LocalSizes::extent(const model::Extent& extent) const {
  if (whole_ && extent.axis != model::Axis::experts) return extent.size;
  switch (extent.axis) {
    case model::Axis::none: return extent.size;
    case model::Axis::heads:
    case model::Axis::ffn: return extent.size / split_.tp;
    case model::Axis::kv_heads: return std::max<std::int64_t>(1, extent.size / split_.tp);
    case model::Axis::vocabulary:
      return implementation_.stack == model::Stack::megatron
                 ? round_up(extent.size, kVocabularyMultiple * split_.tp) / split_.tp
                 : ceil_div(extent.size, split_.tp);
    case model::Axis::experts: return extent.size / split_.ep;
    case model::Axis::expert_ffn: return extent.size / split_.expert_tp();
  }
  return extent.size;
}

double LocalSizes::rows(model::Rows rows, Place place) const {
  const double shards = place == Place::stream && split_.sp ? real(split_.tp) : 1.0;
  switch (rows) {
    case model::Rows::tokens: return tokens_ / shards;
    case model::Rows::memory: return memory_ / shards;
    case model::Rows::routed: return routed_;
    case model::Rows::pairs: return tokens_ * real(sequence_);
    case model::Rows::squared: return real(sequence_) * real(sequence_);
    case model::Rows::single: return 1;
    case model::Rows::positions: return real(sequence_) / real(split_.cp) / shards;
    case model::Rows::samples: return real(micro_batch_);
  }
  return 0;
}

double LocalSizes::row_elements(const model::Tensor& tensor) const {
  double product = 1;
  for (const model::Extent& e : tensor.width) product *= real(extent(e));
  return product;
}

std::int64_t LocalSizes::weight_elements(const model::Weight& weight) const {
  std::int64_t product = 1;
  for (const model::Extent& e : weight.shape) product = checked_product({product, extent(e)});
  return product;
}

}  // namespace nest::split
