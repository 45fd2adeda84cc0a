#include "schedule/pipeline.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace nest::schedule {
namespace {

constexpr double kNever = -1;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

double work_s(Pass pass, const PassSeconds& seconds) {
  switch (pass) {
    case Pass::forward: return seconds.forward_s;
    case Pass::backward: return seconds.input_s + seconds.weight_s;
    case Pass::input_gradient: return seconds.input_s;
    case Pass::weight_gradient: return seconds.weight_s;
  }
  return 0;
}

class Player {
 public:
  Player(const Pipeline& pipeline, const PipelineSeconds& seconds)
      : pipeline_(pipeline), seconds_(seconds), shape_(pipeline.shape()), next_(at(shape_.stages), 0) {
    const std::size_t passes = at(shape_.positions() * shape_.micro_batches);
    forward_end_s_.assign(passes, kNever);
    gradient_end_s_.assign(passes, kNever);
    played_.stages.resize(at(shape_.stages));
    busy_s_.assign(at(shape_.stages), 0);
    free_s_.assign(at(shape_.stages), 0);
    asked_s_.assign(at(shape_.stages), {0, 0});
    held_message_.assign(2 * passes, false);
    for (std::int64_t s = 0; s < shape_.stages; ++s) {
      const Order& order = pipeline.order(s);
      held_.push_back(held_sends(order, seconds.sends));
      for (std::size_t k = 0; k < order.size(); ++k) {
        if (held_.back()[k]) held_message_[message_index(order[k].is_forward(), s, order[k])] = true;
      }
    }
  }

  PlayedPipeline run() {
    // A stage is looked at again whenever something that it may wait for has ended.
    std::vector<std::int64_t> stages;
    for (std::int64_t s = shape_.stages - 1; s >= 0; --s) stages.push_back(s);
    while (!stages.empty()) {
      const std::int64_t stage = stages.back();
      stages.pop_back();
      const Order& order = pipeline_.order(stage);
      std::size_t& next = next_[at(stage)];
      while (next < order.size()) {
        const std::size_t ran = advance(stage, order, next);
        if (ran == 0) break;
        for (std::size_t k = next; k < next + ran; ++k) {
          const std::optional<Neighbour> waiting = pipeline_.target(stage, order[k]);
          if (waiting && waiting->stage != stage) stages.push_back(waiting->stage);
        }
        next += ran;
      }
    }
    for (std::size_t s = 0; s < next_.size(); ++s) {
      NEST_CHECK(next_[s] == pipeline_.orders()[s].size(), "a pipeline does not block itself");
      if (!played_.stages[s].empty()) played_.total_s = std::max(played_.total_s, played_.stages[s].back().end_s);
      played_.busiest_s = std::max(played_.busiest_s, busy_s_[s]);
    }
    return std::move(played_);
  }

 private:
  double& end_s(bool forward, std::int64_t position, std::int32_t micro_batch) {
    return (forward ? forward_end_s_ : gradient_end_s_)[at(position * shape_.micro_batches + micro_batch)];
  }

  // When an operation may begin, its stage free since then; nothing while what it waits for has not run.
  std::optional<double> begin_s(std::int64_t stage, const Operation& operation, double since_s) {
    const std::int64_t position = pipeline_.position(stage, operation.chunk);
    double wait_s = 0;
    if (operation.pass == Pass::weight_gradient) {
      if (end_s(false, position, operation.micro_batch) == kNever) return std::nullopt;
    } else {
      if (!operation.is_forward() && end_s(true, position, operation.micro_batch) == kNever) return std::nullopt;
      if (const std::optional<Neighbour> source = pipeline_.source(stage, operation)) {
        const std::int64_t from = position + (operation.is_forward() ? -1 : 1);
        double ready_s = end_s(operation.is_forward(), from, operation.micro_batch);
        if (ready_s == kNever) return std::nullopt;
        const auto& messages = operation.is_forward() ? seconds_.forward : seconds_.backward;
        if (source->stage != stage && !messages.empty()) {
          if (seconds_.sends.overlapped &&
              !held_message_[message_index(operation.is_forward(), source->stage, source->operation)]) {
            ready_s = std::max(ready_s, asked_s_[at(stage)][operation.is_forward() ? 1 : 0]);
          }
          ready_s += messages[at(source->link)].travel_s;
          wait_s = messages[at(source->link)].wait_s;
        }
        since_s = std::max(since_s, ready_s);
      }
    }
    return since_s + wait_s;
  }

  std::size_t message_index(bool forward, std::int64_t stage, const Operation& operation) const {
    const std::int64_t position = pipeline_.position(stage, operation.chunk);
    return at(((forward ? 1 : 0) * shape_.positions() + position) * shape_.micro_batches + operation.micro_batch);
  }

  // The stage goes on when the message of an operation that ended then has arrived.
  void hold(std::int64_t stage, const Operation& operation, double end_s) {
    const auto& messages = operation.is_forward() ? seconds_.forward : seconds_.backward;
    const std::optional<Neighbour> target = pipeline_.target(stage, operation);
    if (!target || target->stage == stage || messages.empty()) return;
    free_s_[at(stage)] = std::max(free_s_[at(stage)], end_s + messages[at(target->link)].travel_s);
  }

  const PassSeconds& seconds_of(std::int64_t stage, const Operation& operation) const {
    const std::int64_t position = pipeline_.position(stage, operation.chunk);
    const std::optional<LatePasses>& late = seconds_.late;
    const bool is_late = late && late->position == position && operation.micro_batch >= late->from;
    return is_late ? late->seconds : seconds_.chunks[at(position)];
  }

  // How many operations ran: none, one, or the two of a pair.
  std::size_t advance(std::int64_t stage, const Order& order, std::size_t next) {
    std::vector<Span>& spans = played_.stages[at(stage)];
    const double since_s = free_s_[at(stage)];
    const std::size_t count = order[next].paired ? 2 : 1;
    double first_s = since_s;
    for (std::size_t k = next; k < next + count; ++k) {
      const std::optional<double> begins = begin_s(stage, order[k], since_s);
      if (!begins) return 0;
      first_s = std::max(first_s, *begins);
    }
    const double share = count == 2 ? 1 - seconds_.hidden : 1;
    for (std::size_t k = next; k < next + count; ++k) {
      const double seconds = share * work_s(order[k].pass, seconds_of(stage, order[k]));
      spans.push_back({first_s, first_s + seconds});
      first_s += seconds;
      busy_s_[at(stage)] += seconds;
    }
    free_s_[at(stage)] = spans.back().end_s;
    for (std::size_t k = next; k < next + count; ++k) {
      if (held_[at(stage)][k]) hold(stage, order[k], spans.back().end_s);
    }
    for (std::size_t k = next; k < next + count; ++k) {
      const Operation& operation = order[k];
      if (operation.pass == Pass::weight_gradient) continue;
      asked_s_[at(stage)][operation.is_forward() ? 1 : 0] = spans.back().end_s;
      end_s(operation.is_forward(), pipeline_.position(stage, operation.chunk), operation.micro_batch) =
          spans.back().end_s;
    }
    return count;
  }

  const Pipeline& pipeline_;
  const PipelineSeconds& seconds_;
  const Shape& shape_;
  std::vector<std::size_t> next_;  // by stage
  std::vector<double> forward_end_s_, gradient_end_s_;
  std::vector<double> busy_s_, free_s_;         // by stage
  std::vector<std::vector<bool>> held_;         // by stage and operation
  std::vector<bool> held_message_;              // by direction, position and micro-batch
  std::vector<std::array<double, 2>> asked_s_;  // by stage: when it asked for a gradient, and for an input
  PlayedPipeline played_;
};

}  // namespace

Chain::Chain(const Rule& rule, const Shape& shape) : shape_(shape), is_v_(rule.is_v()) {
  const std::string problem = refuse(rule, shape);
  NEST_CHECK(problem.empty(), problem);
  places_.resize(at(shape.positions()));
  for (std::int64_t s = 0; s < shape.stages; ++s) {
    for (std::int64_t c = 0; c < shape.chunks; ++c) {
      positions_.push_back(rule.position(shape, s, c));
      places_[at(positions_.back())] = {s, c};
    }
  }
}

Pipeline::Pipeline(const Rule& rule, const Shape& shape) : Chain(rule, shape), orders_(orders_of(rule, shape)) {}

std::optional<Neighbour> Chain::neighbour(std::int64_t stage, const Operation& operation, std::int64_t step) const {
  if (operation.pass == Pass::weight_gradient) return std::nullopt;
  const std::int64_t here = position(stage, operation.chunk), there = here + step;
  if (there < 0 || there >= shape_.positions()) return std::nullopt;
  const Place& place = places_[at(there)];
  Neighbour found{place.stage, operation, std::min(here, there)};
  found.operation.chunk = static_cast<std::int32_t>(place.chunk);
  return found;
}

PlayedPipeline play(const Pipeline& pipeline, const PipelineSeconds& seconds) {
  return Player(pipeline, seconds).run();
}

}  // namespace nest::schedule
