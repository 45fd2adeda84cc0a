// A pipeline under a schedule: the orders of all its stages, who waits for whom, and when everything happens.
//
// With g the position of a chunk in the chain and i a micro-batch:
//
//     F(g, i)  waits for  F(g-1, i)               and its message
//     B(g, i)  waits for  B(g+1, i)  and F(g, i)  and its message; I the same
//     W(g, i)  waits for  I(g, i)
//
// and every operation for the one before it on its stage, and for its message where it is held. Messages that overlap leave
// when they are asked for (sends.h). Between two chunks of one stage no message travels. A pair
// (operation.h) begins when both of its operations may, and both have ended when it has.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/operation.h"
#include "schedule/rules.h"
#include "schedule/sends.h"

namespace nest::schedule {

struct Place {
  std::int64_t stage = 0;
  std::int64_t chunk = 0;

  bool operator==(const Place&) const = default;
};

// An operation at a neighbouring position of the chain. Link k joins positions k and k + 1.
struct Neighbour {
  std::int64_t stage = 0;
  Operation operation;
  std::int64_t link = 0;
};

// Where the chunks of the stages are in the chain.
class Chain {
 public:
  // The shape must not be refused (rules.h).
  Chain(const Rule& rule, const Shape& shape);

  const Shape& shape() const { return shape_; }
  std::int64_t position(std::int64_t stage, std::int64_t chunk) const {
    return positions_[static_cast<std::size_t>(stage * shape_.chunks + chunk)];
  }
  const Place& place(std::int64_t position) const { return places_[static_cast<std::size_t>(position)]; }
  // The stage after which a link crosses the border between two; the last stage where it leads to the first.
  std::int64_t border(std::int64_t link) const {
    const std::int64_t lower = place(link).stage, upper = place(link + 1).stage;
    return is_v_ && upper < lower ? upper : lower;
  }

  // Whose output an operation waits for, and who waits for its output; none at the ends of the chain and for W.
  std::optional<Neighbour> source(std::int64_t stage, const Operation& operation) const {
    return neighbour(stage, operation, operation.is_forward() ? -1 : 1);
  }
  std::optional<Neighbour> target(std::int64_t stage, const Operation& operation) const {
    return neighbour(stage, operation, operation.is_forward() ? 1 : -1);
  }

 private:
  std::optional<Neighbour> neighbour(std::int64_t stage, const Operation& operation, std::int64_t step) const;

  Shape shape_;
  bool is_v_;
  std::vector<std::int64_t> positions_;  // by stage and chunk
  std::vector<Place> places_;            // by position
};

// The chain with the orders of all stages.
class Pipeline : public Chain {
 public:
  Pipeline(const Rule& rule, const Shape& shape);
  Pipeline(Schedule kind, const Shape& shape) : Pipeline(rule_of(kind), shape) {}

  const std::vector<Order>& orders() const { return orders_; }  // by stage
  const Order& order(std::int64_t stage) const { return orders_[static_cast<std::size_t>(stage)]; }

 private:
  std::vector<Order> orders_;
};

// Seconds of one chunk for one micro-batch. B takes both gradients' time.
struct PassSeconds {
  double forward_s = 0;
  double input_s = 0;
  double weight_s = 0;

  double total_s() const { return forward_s + input_s + weight_s; }
};

// A message is on its way for travel_s, and then keeps its receiver from other work for wait_s. Senders that are held
// wait for the way.
struct MessageSeconds {
  double travel_s = 0;
  double wait_s = 0;
};

// Passes at one position, from a micro-batch on: with the gradients of a head of which only so many wait for the drain.
struct LatePasses {
  std::int64_t position = 0;
  std::int64_t from = 0;
  PassSeconds seconds;
};

struct PipelineSeconds {
  std::vector<PassSeconds> chunks;      // by position
  std::vector<MessageSeconds> forward;  // by link; empty: messages take no time
  std::vector<MessageSeconds> backward;
  Sends sends;        // who waits for messages besides their receivers
  double hidden = 0;  // share of a pair's time that one of its operations hides behind the other
  std::optional<LatePasses> late;
};

struct Span {
  double begin_s = 0;
  double end_s = 0;
};

// When every operation runs, if each starts as soon as it may: ends are longest paths. The two operations of a pair are
// drawn one after the other.
struct PlayedPipeline {
  std::vector<std::vector<Span>> stages;  // parallel to Pipeline::orders()
  double total_s = 0;                     // until the last operation ends
  double busiest_s = 0;                   // work of the stage that has most of it

  double bubble_s() const { return total_s - busiest_s; }
};

// One pass over all operations.
PlayedPipeline play(const Pipeline& pipeline, const PipelineSeconds& seconds);

}  // namespace nest::schedule
