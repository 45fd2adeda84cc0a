#include <algorithm>
#include <utility>

#include "schedule/generators.h"

namespace nest::schedule {
namespace {

// All stages at once, F, I and W one tick each. A stage that is free takes what is ready, the first of: I of chunk 1, I
// of chunk 0, F of chunk 1, F of chunk 0, the W that has waited longest; F only while it holds fewer chunks than a cap,
// and F of chunk 0 leaves room for one more, without which forwards that begin could keep those that are under way from
// ending: the oldest micro-batch always has a place, so no stage waits for ever.
class VGreedy {
 public:
  VGreedy(const Shape& shape, std::int64_t cap)
      : p_(shape.stages), m_(shape.micro_batches), cap_(cap), stages_(static_cast<std::size_t>(p_)) {
    for (std::vector<std::int64_t>* ends : {&forward_end_, &gradient_end_}) {
      ends->assign(static_cast<std::size_t>(2 * p_ * m_), kNever);
    }
  }

  std::vector<Order> build() {
    std::int64_t left = 6 * m_ * p_;
    for (std::int64_t now = 0; left > 0; ++now) {
      for (std::int64_t s = 0; s < p_; ++s) left -= step(s, now) ? 1 : 0;
    }
    std::vector<Order> orders;
    for (Stage& stage : stages_) orders.push_back(std::move(stage.order));
    return orders;
  }

 private:
  static constexpr std::int64_t kNever = -1;
  struct Stage {
    std::int64_t forwards[2] = {}, inputs[2] = {}, held = 0;
    std::size_t weights = 0;
    Order waiting, order;
  };

  std::int64_t position(std::int64_t s, int chunk) const { return chunk == 0 ? s : 2 * p_ - 1 - s; }
  std::size_t index(std::int64_t position, std::int64_t i) const { return static_cast<std::size_t>(position * m_ + i); }
  bool ended(const std::vector<std::int64_t>& ends, std::int64_t position, std::int64_t i, std::int64_t now) const {
    const std::int64_t end = ends[index(position, i)];
    return end != kNever && end <= now;
  }

  // Whether stage s finds something to do.
  bool step(std::int64_t s, std::int64_t now) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    for (const int chunk : {1, 0}) {
      const std::int64_t i = stage.inputs[chunk], here = position(s, chunk);
      if (i == stage.forwards[chunk]) continue;
      const bool last = here + 1 == 2 * p_;
      if (!(last ? ended(forward_end_, here, i, now) : ended(gradient_end_, here + 1, i, now))) continue;
      gradient_end_[index(here, i)] = now + 1;
      ++stage.inputs[chunk];
      add(stage, Pass::input_gradient, chunk, i);
      stage.waiting.push_back(stage.order.back());
      return true;
    }
    for (const int chunk : {1, 0}) {
      const std::int64_t i = stage.forwards[chunk], here = position(s, chunk);
      if (i == m_ || stage.held >= cap_ - (chunk == 0 ? 1 : 0)) continue;
      if (here > 0 && !ended(forward_end_, here - 1, i, now)) continue;
      forward_end_[index(here, i)] = now + 1;
      ++stage.forwards[chunk];
      ++stage.held;
      add(stage, Pass::forward, chunk, i);
      return true;
    }
    if (stage.weights == stage.waiting.size()) return false;
    const Operation& oldest = stage.waiting[stage.weights++];
    --stage.held;
    add(stage, Pass::weight_gradient, oldest.chunk, oldest.micro_batch);
    return true;
  }

  static void add(Stage& stage, Pass pass, int chunk, std::int64_t i) {
    stage.order.push_back({pass, chunk, static_cast<std::int32_t>(i)});
  }

  std::int64_t p_, m_, cap_;
  std::vector<Stage> stages_;
  std::vector<std::int64_t> forward_end_, gradient_end_;  // by position and micro-batch
};

// Chunks that a stage may hold: half of what 1F1B's first stage holds and one micro-batch; a third and one chunk.
std::int64_t half_cap(const Shape& shape) { return shape.stages + 2; }
std::int64_t third_cap(const Shape& shape) { return 2 * ((shape.stages + 2) / 3) + 1; }

}  // namespace

std::vector<Order> v_half(const Shape& shape) { return VGreedy(shape, half_cap(shape)).build(); }
std::int64_t v_half_held(const Shape& shape, std::int64_t) {
  return std::min(half_cap(shape), 2 * shape.micro_batches);
}

std::vector<Order> v_min(const Shape& shape) { return VGreedy(shape, third_cap(shape)).build(); }
std::int64_t v_min_held(const Shape& shape, std::int64_t) {
  return std::min(third_cap(shape), 2 * shape.micro_batches);
}

}  // namespace nest::schedule
