#include "more_schedules.h"

#include <algorithm>

#include "schedule/generators.h"

namespace nest::schedule::test {
namespace {

schedule::Order zb_h1_order(const schedule::Shape& shape, std::int64_t stage) {
  schedule::Order order;
  std::int32_t weights = 0;
  for (const schedule::Operation& operation : schedule::one_f_one_b(shape, stage)) {
    if (operation.is_forward()) {
      order.push_back(operation);
      continue;
    }
    order.push_back({schedule::Pass::input_gradient, 0, operation.micro_batch});
    if (operation.micro_batch >= stage) order.push_back({schedule::Pass::weight_gradient, 0, weights++});
  }
  while (weights < shape.micro_batches) order.push_back({schedule::Pass::weight_gradient, 0, weights++});
  return order;
}

// The next micro-batch of every pass and chunk.
class InARow {
 public:
  explicit InARow(std::int64_t micro_batches) : most_(static_cast<std::int32_t>(micro_batches)) {}
  bool left(schedule::Pass pass, std::int32_t chunk) const { return next_[index(pass, chunk)] < most_; }
  void add(schedule::Pass pass, std::int32_t chunk) {
    if (left(pass, chunk)) order.push_back({pass, chunk, next_[index(pass, chunk)]++});
  }
  schedule::Order order;

 private:
  static std::size_t index(schedule::Pass pass, std::int32_t chunk) {
    return 2 * static_cast<std::size_t>(pass) + static_cast<std::size_t>(chunk);
  }
  std::int32_t most_;
  std::int32_t next_[8] = {};
};

schedule::Order zbv_order(const schedule::Shape& shape, std::int64_t stage) {
  constexpr schedule::Pass F = schedule::Pass::forward, I = schedule::Pass::input_gradient,
                           W = schedule::Pass::weight_gradient;
  const std::int64_t p = shape.stages;
  InARow row(shape.micro_batches);
  for (std::int64_t k = 0; k < 2 * (p - stage) - 1; ++k) row.add(F, 0);
  for (std::int64_t k = 0; k < stage; ++k) {
    row.add(F, 1);
    row.add(F, 0);
  }
  for (std::int64_t k = 0; k < p - stage; ++k) {
    for (const schedule::Pass pass : {F, I, W}) row.add(pass, 1);
  }
  while (row.left(F, 1) || row.left(F, 0)) {
    for (const schedule::Pass pass : {F, I, W}) row.add(pass, 0);
    for (const schedule::Pass pass : {F, I, W}) row.add(pass, 1);
  }
  for (std::int64_t k = 0; k < stage; ++k) {
    row.add(I, 0);
    row.add(I, 1);
  }
  for (std::int64_t k = 0; k < p - stage; ++k) {
    row.add(I, 0);
    row.add(W, 0);
  }
  while (row.left(W, 1)) row.add(W, 1);
  while (row.left(W, 0)) row.add(W, 0);
  return row.order;
}

std::int64_t v_position(const schedule::Shape& shape, std::int64_t stage, std::int64_t chunk) {
  return chunk == 0 ? stage : 2 * shape.stages - 1 - stage;
}

// Every forward after the first backward comes one place earlier.
schedule::Order one_ahead(const schedule::Shape& shape, std::int64_t stage) {
  schedule::Order forwards, backwards;
  for (const schedule::Operation& operation : schedule::interleaved(shape, stage)) {
    (operation.is_forward() ? forwards : backwards).push_back(operation);
  }
  const std::int64_t first = 2 * (shape.stages - 1 - stage) + (shape.chunks - 1) * shape.grouped() + 1;
  return schedule::in_turn(forwards, backwards, std::min(first, shape.micro_batches * shape.chunks));
}

}  // namespace

schedule::Rule zb_h1() { return {Schedule::one_f_one_b, false, zb_h1_order, round_robin, nullptr}; }
schedule::Rule zbv() { return {Schedule::interleaved, true, zbv_order, v_position, nullptr}; }
schedule::Rule interleaved_one_ahead() { return {Schedule::interleaved, true, one_ahead, round_robin, nullptr}; }

}  // namespace nest::schedule::test
