#include "simulate/step_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/index.h"
#include "plan/pipeline_shape.h"
#include "schedule/pipeline.h"
#include "simulate/busy_period.h"
#include "simulate/exchanges.h"
#include "simulate/lower.h"

namespace nest::simulate {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Replicas : std::uint8_t {
  together,  // send at the same time
  fastest,   // every class alone; the one that is done first counts
};

// How long exchanges take alone on the network.
class AloneTimes {
 public:
  AloneTimes(const Quotient& network, Replicas replicas)
      : network_(network), replicas_(replicas), work_s_(network.links.size()) {}

  double seconds(std::int32_t exchange, const Amount& amount) {
    const auto& classes = network_.flows[at(exchange)];
    if (replicas_ == Replicas::together) return seconds(classes, 0, classes.size(), amount);
    double least_s = kInfinity;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      least_s = std::min(least_s, seconds(classes, c, c + 1, amount));
    }
    return classes.empty() ? 0 : least_s;
  }

 private:
  double seconds(const std::vector<std::vector<ClassFlow>>& classes, std::size_t first, std::size_t end,
                 const Amount& amount) {
    double longest_s = 0, latency_s = kInfinity;
    for (std::size_t c = first; c < end; ++c) {
      for (const ClassFlow& flow : classes[c]) {
        double own_s = 0;
        for (const RouteLoad& load : network_.routes[at(flow.route)].loads) {
          const double each_s = real(load.times) * flow.bytes_of(amount) / network_.links[at(load.link)].bytes_per_s;
          if (work_s_[at(load.link)] == 0) touched_.push_back(load.link);
          work_s_[at(load.link)] += each_s;
          own_s = std::max(own_s, each_s);
        }
        longest_s = std::max(longest_s, amount.latencies * flow.latency_s + own_s);
        latency_s = std::min(latency_s, amount.latencies * flow.latency_s);
      }
    }
    for (const std::int32_t link : touched_) {
      longest_s = std::max(longest_s, latency_s + work_s_[at(link)]);
      work_s_[at(link)] = 0;
    }
    touched_.clear();
    return longest_s;
  }

  const Quotient& network_;
  Replicas replicas_;
  std::vector<double> work_s_;
  std::vector<std::int32_t> touched_;
};

// Seconds of a pass: what it waits for before it computes, its compute, and all until it is done.
struct PassTime {
  double lead_s = 0;
  double compute_s = 0;
  double total_s = 0;
};

// What a pass puts on the network.
struct Sent {
  std::int32_t exchange = 0;
  Amount amount;
  double after_s = 0;  // until all stages have their gradients, at least
};

struct Position {
  std::int64_t stage = 0;
  std::int32_t chunk = 0;
  PassTime forward, backward, weight;             // backward: I where gradients of weights are computed apart
  PassTime late_backward, late_weight;            // with the head's gradients
  std::vector<Sent> with_forward, with_backward;  // when the pass begins
  std::optional<Sent> after_forward, after_backward;
};

}  // namespace

class StepEstimator::Parts {
 public:
  Parts(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages, ExchangeCache& known)
      : rule_(schedule::rule_of(strategy.schedule)),
        shape_(plan::pipeline_shape(strategy, job.run.global_batch)),
        chain_(rule_, shape_),
        work_(plan_work(job, strategy, stages)),
        exchanges_(known.get(strategy, work_, chain_, Merge::alike)) {}

  const schedule::Rule& rule() const { return rule_; }
  schedule::Shape shape(std::int64_t micro_batches) const {
    schedule::Shape shape = shape_;
    shape.micro_batches = micro_batches;
    return shape;
  }
  bool overlaps() const { return work_.sends.overlapped; }

  double seconds(const schedule::Pipeline& pipeline, Replicas replicas) const;

 private:
  const StageWork& stage(std::int64_t s) const { return work_.stages[at(s)]; }
  const Quotient& network() const { return exchanges_->symmetry(); }

  double state_s(AloneTimes& alone, std::int64_t s, const StateTraffic& traffic, double share) const {
    double seconds = 0;
    if (share <= 0) return 0;
    for (const StateCall& call : traffic.calls) {
      const std::vector<std::int32_t>& transfers = exchanges_->state(s, call);
      if (transfers.empty()) seconds += share * call.predicted_s;
      for (const std::int32_t exchange : transfers) seconds += alone.seconds(exchange, amount_of(call, share));
    }
    return seconds;
  }
  void add_state(std::int64_t s, const StateTraffic& traffic, double share, double begin_s, BusyPeriods& busy) const {
    for (const StateCall& call : traffic.calls) {
      for (const std::int32_t exchange : exchanges_->state(s, call)) {
        busy.add(exchange, amount_of(call, share), begin_s, 0);
      }
    }
  }

  double tokens_s(AloneTimes& alone, std::int64_t s, bool backward, double share) const {
    const TokenTraffic& traffic = backward ? stage(s).from_experts : stage(s).to_experts;
    const std::vector<std::int32_t>& transfers = exchanges_->tokens(s, backward);
    if (share <= 0 || traffic.empty()) return 0;
    if (transfers.empty()) return share * traffic.predicted_s;
    double seconds = 0;
    for (const std::int32_t exchange : transfers) seconds += alone.seconds(exchange, amount_of(traffic, share));
    return seconds;
  }

  PassTime pass_time(AloneTimes& alone, const Position& place, bool backward, double compute_s) const;
  void add_sent(Position& place) const;
  std::vector<Position> positions(AloneTimes& alone) const;
  schedule::PipelineSeconds pipeline_seconds(AloneTimes& alone, const std::vector<Position>& places, bool meet) const;
  double meeting_share(std::int32_t exchange, const std::vector<std::int32_t>& others) const;
  void follow(const schedule::PipelineSeconds& seconds, double reduced_s, std::vector<Position>& places) const;
  const PassTime& time_of(const Position& place, const schedule::Operation& operation) const;
  double mark_s(const std::vector<Position>& places, const schedule::Order& order,
                const std::vector<schedule::Span>& spans, std::int64_t s) const;

  const schedule::Rule& rule_;
  schedule::Shape shape_;
  schedule::Chain chain_;
  PlanWork work_;
  std::shared_ptr<const Exchanges> exchanges_;
};

PassTime StepEstimator::Parts::pass_time(AloneTimes& alone, const Position& place, bool backward,
                                         double compute_s) const {
  const StageWork& own = stage(place.stage);
  const ChunkShare& share = own.chunks[at(place.chunk)];
  const StateTraffic& state = backward ? own.in_backward : own.in_forward;
  const TokenTraffic& tokens = backward ? own.from_experts : own.to_experts;
  const double routed = backward ? share.from_experts : share.to_experts;
  const double state_before_s = state_s(alone, place.stage, state, share.state * state.exposed);
  const double state_beside_s = state_s(alone, place.stage, state, share.state * (1 - state.exposed));
  const double before_s = tokens_s(alone, place.stage, backward, routed * tokens.exposed);
  // Where passes are paired, tokens may travel until the next one ends.
  const double beside_s =
      work_.pairs_passes ? 0 : tokens_s(alone, place.stage, backward, routed * (1 - tokens.exposed));
  return {state_before_s + before_s, compute_s,
          state_before_s + std::max(before_s + std::max(compute_s, beside_s), state_beside_s)};
}

void StepEstimator::Parts::add_sent(Position& place) const {
  const StageWork& own = stage(place.stage);
  const ChunkShare& share = own.chunks[at(place.chunk)];
  for (const bool backward : {false, true}) {
    std::vector<Sent>& sent = backward ? place.with_backward : place.with_forward;
    for (const StateCall& call : (backward ? own.in_backward : own.in_forward).calls) {
      for (const std::int32_t exchange : exchanges_->state(place.stage, call)) {
        sent.push_back({exchange, amount_of(call, share.state), 0});
      }
    }
    const TokenTraffic& tokens = backward ? own.from_experts : own.to_experts;
    const double routed = backward ? share.from_experts : share.to_experts;
    for (const std::int32_t exchange : exchanges_->tokens(place.stage, backward)) {
      sent.push_back({exchange, amount_of(tokens, routed), 0});
    }
  }
}

std::vector<Position> StepEstimator::Parts::positions(AloneTimes& alone) const {
  std::vector<Position> places(at(shape_.positions()));
  for (std::size_t q = 0; q < places.size(); ++q) {
    Position& place = places[q];
    const schedule::Place& where = chain_.place(static_cast<std::int64_t>(q));
    place.stage = where.stage;
    place.chunk = static_cast<std::int32_t>(where.chunk);
    const StageWork& own = stage(place.stage);
    const ChunkShare& share = own.chunks[at(place.chunk)];
    const double whole_weight_s = std::min(own.weight_s, own.backward_s);
    const double weight_s = whole_weight_s * share.weight;
    const double input_s = (own.backward_s - whole_weight_s) * share.backward;
    const double head_s = where.chunk + 1 == shape_.chunks ? own.head_gradient_s : 0;
    place.forward = pass_time(alone, place, false, own.forward_s * share.forward);
    if (rule_.is_split()) {
      place.backward = place.late_backward = pass_time(alone, place, true, input_s);
      place.weight = {0, weight_s, weight_s};
      place.late_weight = {0, weight_s + head_s, weight_s + head_s};
    } else {
      place.backward = pass_time(alone, place, true, input_s + weight_s);
      place.late_backward = pass_time(alone, place, true, input_s + weight_s + head_s);
    }
    add_sent(place);
  }
  for (std::int64_t link = 0; link + 1 < shape_.positions(); ++link) {
    Position& lower = places[at(link)];
    Position& upper = places[at(link + 1)];
    const double bytes = work_.message_bytes(chain_, link);
    if (lower.stage == upper.stage || bytes <= 0) continue;
    lower.after_forward = Sent{exchanges_->message(lower.stage, upper.stage), {bytes}, 0};
    upper.after_backward = Sent{exchanges_->message(upper.stage, lower.stage), {bytes}, 0};
  }
  return places;
}

// What others put on the link where an exchange has most, over its own; 1 at most.
double StepEstimator::Parts::meeting_share(std::int32_t exchange, const std::vector<std::int32_t>& others) const {
  const auto work_on = [&](std::int32_t of) {
    std::vector<double> work_s(network().links.size());
    for (const auto& flows : network().flows[at(of)]) {
      for (const ClassFlow& flow : flows) {
        for (const RouteLoad& load : network().routes[at(flow.route)].loads) {
          work_s[at(load.link)] += real(load.times) * flow.bytes / network().links[at(load.link)].bytes_per_s;
        }
      }
    }
    return work_s;
  };
  const std::vector<double> own_s = work_on(exchange);
  if (own_s.empty()) return 0;
  const auto most = std::max_element(own_s.begin(), own_s.end()) - own_s.begin();
  if (own_s[at(most)] <= 0) return 0;
  double met_s = 0;
  for (const std::int32_t other : others) met_s += work_on(other)[at(most)];
  return std::min(1.0, met_s / own_s[at(most)]);
}

// `meet`: messages of the two directions meet.
schedule::PipelineSeconds StepEstimator::Parts::pipeline_seconds(AloneTimes& alone, const std::vector<Position>& places,
                                                                 bool meet) const {
  schedule::PipelineSeconds seconds;
  seconds.sends = work_.sends;
  for (const Position& place : places) {
    if (place.chunk + 1 == shape_.chunks && stage(place.stage).head_gradient_s > 0) {
      seconds.late = {std::ssize(seconds.chunks),
                      work_.put_off,
                      {place.forward.total_s, place.late_backward.total_s, place.late_weight.total_s}};
    }
    seconds.chunks.push_back({place.forward.total_s, place.backward.total_s, place.weight.total_s});
  }
  std::array<std::vector<std::int32_t>, 2> sent;  // forward, backward
  for (const Position& place : places) {
    for (const bool backward : {false, true}) {
      const std::optional<Sent>& message = backward ? place.after_backward : place.after_forward;
      auto& all = sent[backward ? 1 : 0];
      if (message && std::find(all.begin(), all.end(), message->exchange) == all.end())
        all.push_back(message->exchange);
    }
  }
  std::vector<double> shares(network().flows.size(), -1);  // of meeting, by exchange
  const auto message = [&](const std::optional<Sent>& sends, bool backward, double window_s) {
    if (!sends) return schedule::MessageSeconds{};
    double travel_s = alone.seconds(sends->exchange, sends->amount);
    if (!overlaps()) return schedule::MessageSeconds{0, travel_s};
    if (meet && travel_s > window_s) {
      double& share = shares[at(sends->exchange)];
      if (share < 0) share = meeting_share(sends->exchange, sent[backward ? 0 : 1]);
      travel_s += share * (travel_s - window_s);
    }
    return schedule::MessageSeconds{travel_s, 0};
  };
  for (std::size_t k = 0; k + 1 < places.size(); ++k) {
    seconds.forward.push_back(message(places[k].after_forward, false, places[k + 1].forward.total_s));
    seconds.backward.push_back(message(places[k + 1].after_backward, true, places[k].forward.total_s));
  }
  return seconds;
}

// What follows every transfer at least: its micro-batch's way to the end of the chain and back, and the gradients that the
// first stage waits for.
void StepEstimator::Parts::follow(const schedule::PipelineSeconds& seconds, double reduced_s,
                                  std::vector<Position>& places) const {
  const auto way_s = [](const schedule::MessageSeconds& message) { return message.travel_s + message.wait_s; };
  double after_s = reduced_s;  // after the backward pass of a position
  for (std::size_t q = 0; q < places.size(); ++q) {
    Position& place = places[q];
    for (Sent& sent : place.with_backward) sent.after_s = work_.pairs_passes ? 0 : after_s;
    after_s += place.backward.total_s;
    if (q + 1 == places.size()) break;
    if (places[q + 1].after_backward) places[q + 1].after_backward->after_s = after_s;
    after_s += way_s(seconds.backward[q]);
  }
  for (std::size_t q = places.size(); q-- > 0;) {
    Position& place = places[q];
    for (Sent& sent : place.with_forward) sent.after_s = work_.pairs_passes ? 0 : after_s;
    after_s += place.forward.total_s;
    if (q == 0) break;
    if (places[q - 1].after_forward) places[q - 1].after_forward->after_s = after_s;
    after_s += way_s(seconds.forward[q - 1]);
  }
}

const PassTime& StepEstimator::Parts::time_of(const Position& place, const schedule::Operation& operation) const {
  const bool late = operation.micro_batch >= work_.put_off;
  if (operation.is_forward()) return place.forward;
  if (operation.pass == schedule::Pass::weight_gradient) return late ? place.late_weight : place.weight;
  return late ? place.late_backward : place.backward;
}

// When the hidden part of a stage's gradients may leave: so much compute is left as it takes by the cost model.
double StepEstimator::Parts::mark_s(const std::vector<Position>& places, const schedule::Order& order,
                                    const std::vector<schedule::Span>& spans, std::int64_t s) const {
  const StateTraffic& reduce = stage(s).reduce;
  const double hidden_s = work_.aligned_gradients && s > 0 ? 0 : (1 - reduce.exposed) * reduce.predicted_s();
  const auto time = [&](std::size_t k) -> const PassTime& {
    return time_of(places[at(chain_.position(s, order[k].chunk))], order[k]);
  };
  const auto computed_s = [&](std::size_t k) { return spans[k].begin_s + time(k).lead_s + time(k).compute_s; };
  if (hidden_s <= 0) return computed_s(order.size() - 1);
  double left_s = 0;
  std::size_t cut = order.size();
  while (cut > 0 && left_s < hidden_s) left_s += time(--cut).compute_s;
  if (left_s > hidden_s) return spans[cut].begin_s + time(cut).lead_s + left_s - hidden_s;
  return cut > 0 ? computed_s(cut - 1) : 0;
}

double StepEstimator::Parts::seconds(const schedule::Pipeline& pipeline, Replicas replicas) const {
  const bool together = replicas == Replicas::together;
  AloneTimes alone(network(), replicas);
  std::vector<Position> places = positions(alone);
  const schedule::PipelineSeconds times = pipeline_seconds(alone, places, together);
  const std::int64_t first = places.front().stage;
  follow(times, state_s(alone, first, stage(first).reduce, stage(first).reduce.exposed), places);
  const schedule::PlayedPipeline played = schedule::play(pipeline, times);

  struct Gradients {
    double mark_s = 0, exposed_s = 0;  // when the hidden and the exposed part leave
  };
  std::vector<Gradients> gradients(work_.stages.size());
  std::vector<double> begins_s;
  double norm_s = 0;
  for (std::size_t s = 0; s < gradients.size(); ++s) {
    const auto index = static_cast<std::int64_t>(s);
    const StageWork& own = work_.stages[s];
    const double mark = mark_s(places, pipeline.order(index), played.stages[s], index);
    double end_s = played.stages[s].back().end_s;
    if (own.head_gradient_s > 0) end_s += real(work_.put_off) * own.head_gradient_s;
    const double hidden_s = state_s(alone, index, own.reduce, 1 - own.reduce.exposed);
    gradients[s] = {mark, hidden_s > 0 ? std::max(end_s, mark + hidden_s) : end_s};
    norm_s = std::max(norm_s, gradients[s].exposed_s + state_s(alone, index, own.reduce, own.reduce.exposed));
    begins_s.insert(begins_s.end(), {gradients[s].mark_s, gradients[s].exposed_s});
  }

  BusyPeriods busy(network(), begins_s);
  for (std::size_t s = 0; s < gradients.size(); ++s) {
    const auto index = static_cast<std::int64_t>(s);
    const StateTraffic& reduce = work_.stages[s].reduce;
    const StateTraffic& gather = work_.stages[s].gather;
    add_state(index, reduce, 1 - reduce.exposed, gradients[s].mark_s, busy);
    add_state(index, reduce, reduce.exposed, gradients[s].exposed_s, busy);
    // Weights for this step: nothing says that they are there before the gradients are.
    if (together) add_state(index, gather, 1 - gather.exposed, 0, busy);
    const schedule::Order& order = pipeline.order(index);
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (order[k].pass == schedule::Pass::weight_gradient) continue;
      const Position& place = places[at(chain_.position(index, order[k].chunk))];
      const bool forward = order[k].is_forward();
      const schedule::Span& span = played.stages[s][k];
      for (const Sent& sent : forward ? place.with_forward : place.with_backward) {
        busy.add(sent.exchange, sent.amount, span.begin_s, sent.after_s);
      }
      const std::optional<Sent>& message = forward ? place.after_forward : place.after_backward;
      if (message) busy.add(message->exchange, message->amount, span.end_s, message->after_s);
    }
  }
  norm_s = std::max(norm_s, busy.end_s());

  begins_s.clear();
  for (const StageWork& own : work_.stages) begins_s.push_back(norm_s + own.optimizer_s);
  BusyPeriods gathers(network(), begins_s);
  double total_s = 0;
  for (std::size_t s = 0; s < begins_s.size(); ++s) {
    const auto index = static_cast<std::int64_t>(s);
    const StateTraffic& gather = work_.stages[s].gather;
    add_state(index, gather, gather.exposed, begins_s[s], gathers);
    total_s = std::max({total_s, begins_s[s] + state_s(alone, index, gather, gather.exposed),
                        state_s(alone, index, gather, 1 - gather.exposed)});
  }
  return std::max(total_s, gathers.end_s()) + work_.step_s;
}

StepEstimator::StepEstimator(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                             ExchangeCache& known) {
  refuse_ranks(strategy);
  parts_ = std::make_unique<const Parts>(job, strategy, stages, known);
}

StepEstimator::~StepEstimator() = default;

StepEstimate StepEstimator::of(std::int64_t micro_batches) const {
  const schedule::Shape shape = parts_->shape(micro_batches);
  const double operations = (parts_->rule().is_split() ? 3.0 : 2.0) * real(shape.positions()) * real(micro_batches);
  if (operations > real(kMostActivities)) {
    throw InputError(fmt::format("{:.0f} passes are too many to look at; a smaller global batch would do", operations));
  }
  const schedule::Pipeline pipeline(parts_->rule(), shape);
  const auto is_paired = [](const schedule::Order& order) {
    return std::any_of(order.begin(), order.end(), [](const schedule::Operation& one) { return one.paired; });
  };
  const bool paired = std::any_of(pipeline.orders().begin(), pipeline.orders().end(), is_paired);
  StepEstimate estimate;
  estimate.seconds = parts_->seconds(pipeline, Replicas::together);
  if (!paired) estimate.least_s = parts_->seconds(pipeline, Replicas::fastest);
  return estimate;
}

}  // namespace nest::simulate
