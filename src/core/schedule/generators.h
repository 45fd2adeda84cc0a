// One function per schedule: the order of one stage, and the closed form of what it holds.
#pragma once

#include "schedule/operation.h"

namespace nest::schedule {

Order one_f_one_b(const Shape& shape, std::int64_t stage);
std::int64_t one_f_one_b_held(const Shape& shape, std::int64_t stage);

Order interleaved(const Shape& shape, std::int64_t stage);
std::int64_t interleaved_held(const Shape& shape, std::int64_t stage);

Order gpipe(const Shape& shape, std::int64_t stage);
std::int64_t gpipe_held(const Shape& shape, std::int64_t stage);

Order zb_h1(const Shape& shape, std::int64_t stage);
std::int64_t zb_h1_held(const Shape& shape, std::int64_t stage);

Order zbv(const Shape& shape, std::int64_t stage);
std::int64_t zbv_held(const Shape& shape, std::int64_t stage);

Order dualpipev(const Shape& shape, std::int64_t stage);
std::int64_t dualpipev_held(const Shape& shape, std::int64_t stage);

// Those that no closed order describes are built for all stages at once.
std::vector<Order> v_half(const Shape& shape);
std::int64_t v_half_held(const Shape& shape, std::int64_t stage);
std::vector<Order> v_min(const Shape& shape);
std::int64_t v_min_held(const Shape& shape, std::int64_t stage);

// Position s of chunk 0 and 2p - 1 - s of chunk 1 in the chain of chunks.
std::int64_t there_and_back(const Shape& shape, std::int64_t stage, std::int64_t chunk);

// Position c p + s in the chain of chunks.
std::int64_t round_robin(const Shape& shape, std::int64_t stage, std::int64_t chunk);

// An order in the making: the next micro-batch of every pass and chunk, of a stage with two chunks at most.
class InARow {
 public:
  explicit InARow(std::int64_t micro_batches) : most_(static_cast<std::int32_t>(micro_batches)) {}

  bool left(Pass pass, std::int32_t chunk) const { return next_[index(pass, chunk)] < most_; }
  // Nothing where none is left.
  void add(Pass pass, std::int32_t chunk, bool paired = false) {
    if (left(pass, chunk)) order.push_back({pass, chunk, next_[index(pass, chunk)]++, paired});
  }

  Order order;

 private:
  static std::size_t index(Pass pass, std::int32_t chunk) {
    return 2 * static_cast<std::size_t>(pass) + static_cast<std::size_t>(chunk);
  }
  std::int32_t most_;
  std::int32_t next_[8] = {};
};

// The micro-batches of one chunk in a row.
Order one_by_one(Pass pass, std::int64_t micro_batches);

// So many forwards first, then forward and backward in turn, then the backwards that are left.
Order in_turn(const Order& forwards, const Order& backwards, std::int64_t first);

}  // namespace nest::schedule
