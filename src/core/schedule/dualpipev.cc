#include <utility>

#include "schedule/generators.h"

namespace nest::schedule {
namespace {

// Gradients of weights that wait are computed in the order in which they began to.
class DualOrder {
 public:
  explicit DualOrder(std::int64_t micro_batches) : row_(micro_batches) {}

  void forward(std::int32_t chunk) { row_.add(Pass::forward, chunk); }
  void backward(std::int32_t chunk) { back(chunk, Pass::backward); }
  void input(std::int32_t chunk) {
    back(chunk, Pass::input_gradient);
    waiting_.push_back(row_.order.back());
  }
  void weight() {
    Operation operation = waiting_[done_++];
    operation.pass = Pass::weight_gradient;
    row_.order.push_back(operation);
  }
  void pair(std::int32_t forward_chunk, std::int32_t backward_chunk) {
    row_.add(Pass::forward, forward_chunk, true);
    backward(backward_chunk);
  }
  Order take() { return std::move(row_.order); }

 private:
  // B and I count the same micro-batches.
  void back(std::int32_t chunk, Pass pass) {
    row_.add(Pass::backward, chunk);
    row_.order.back().pass = pass;
  }

  InARow row_;
  Order waiting_;
  std::size_t done_ = 0;
};

}  // namespace

// The order of DeepSeek's dualpipe/dualpipev.py, m >= 2p. The last stage runs its first pair apart: it would wait
// otherwise.
Order dualpipev(const Shape& shape, std::int64_t stage) {
  const std::int64_t after = shape.stages - stage - 1;
  DualOrder order(shape.micro_batches);
  for (std::int64_t k = 0; k < 2 * after; ++k) order.forward(0);
  for (std::int64_t k = 0; k <= stage; ++k) {
    order.forward(0);
    order.forward(1);
  }
  for (std::int64_t k = 0; k < after; ++k) {
    order.input(1);
    order.weight();
    order.forward(1);
  }
  for (std::int64_t k = 0; k < shape.micro_batches - 2 * shape.stages + stage + 1; ++k) {
    if (k == 0 && after == 0) {
      order.forward(0);
      order.backward(1);
    } else {
      order.pair(0, 1);
    }
    order.pair(1, 0);
  }
  for (std::int64_t k = 0; k < after; ++k) {
    order.backward(1);
    order.pair(1, 0);
  }
  // The second half is split.
  for (std::int64_t k = 0; k < 2 * (stage + 1); ++k) {
    const std::int32_t chunk = k % 2 == 0 ? 1 : 0;
    k > stage ? order.input(chunk) : order.backward(chunk);
  }
  for (std::int64_t k = 0; k < after; ++k) {
    order.weight();
    order.input(0);
  }
  for (std::int64_t k = 0; k <= stage; ++k) order.weight();
  return order.take();
}

std::int64_t dualpipev_held(const Shape& shape, std::int64_t) { return 2 * shape.stages + 1; }

}  // namespace nest::schedule
