// Sizes on one device: what split and the memory model count with.
#pragma once

#include <cstdint>

#include "base/index.h"
#include "model/build.h"
#include "model/graph.h"
#include "split/split.h"

namespace nest::split {

// Where a tensor lives with respect to tensor parallelism; see local_layer.h.
enum class Place : std::uint8_t { stream, sharded, partial };

// Rounded. Throws InputError where that does not fit in 63 bits.
std::int64_t whole_number(double value);

class LocalSizes {
 public:
  LocalSizes(const model::Layer& layer, const RunShape& shape, const Split& split,
             const model::Implementation& implementation);

  std::int64_t extent(const model::Extent& extent) const;
  double rows(model::Rows rows, Place place) const;
  double rows(const model::Tensor& tensor, Place place) const {
    return rows(tensor.rows, tensor.whole ? Place::sharded : place) * tensor.rows_per_unit;
  }
  double row_elements(const model::Tensor& tensor) const;
  double bytes(const model::Tensor& tensor, Place place) const {
    return rows(tensor, place) * row_elements(tensor) * tensor.element_bytes;
  }
  std::int64_t weight_elements(const model::Weight& weight) const;
  double length(const model::Length& length) const {
    return length.size * (length.per_sequence ? real(sequence_) : 1.0);
  }
  bool whole() const { return whole_; }  // tensor parallelism does not divide the layer (Layer::may_stay_whole)

  double tokens() const { return tokens_; }  // of one micro-batch on one context-parallel rank
  std::int64_t sequence() const { return sequence_; }
  std::int64_t memory_sequence() const { return memory_sequence_; }
  std::int64_t micro_batch() const { return micro_batch_; }

 private:
  const Split& split_;
  const model::Implementation& implementation_;
  std::int64_t micro_batch_;
  std::int64_t sequence_;         // of the layer's own tower
  std::int64_t memory_sequence_;  // of the encoder
  double tokens_;
  double memory_;
  double routed_;
  bool whole_;
};

}  // namespace nest::split
