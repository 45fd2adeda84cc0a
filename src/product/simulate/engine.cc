#include "simulate/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <queue>

#include "base/error.h"
#include "base/index.h"
#include "nest/simulate.h"
#include "simulate/fair_share.h"

namespace nest::simulate {
namespace {

using Index = std::int32_t;
using Clock = std::chrono::steady_clock;

constexpr double kTogether = 1e-15;              // relative: events that differ by rounding only
constexpr std::size_t kEventsPerLook = 1 << 14;  // between two looks at the limits

enum class Happening : std::uint8_t { delay_over, latency_over, flow_over };

struct Event {
  double at_s = 0;
  Happening what = Happening::delay_over;
  Index who = 0;              // an activity; of flow_over, a flow
  std::uint32_t version = 0;  // of latency_over, which flow of the activity; of flow_over, which promise of its end

  bool operator<(const Event& other) const { return at_s > other.at_s; }  // the queue's first is the earliest
};

// A flow under way. Its slot is used again; its version is not, so that events of the past are known as such.
struct Moving {
  Index activity = 0;
  Index route = 0;
  Index place = 0;  // among the flows of its route
  double left = 0;  // bytes, at since_s
  double since_s = 0;
  double rate = 0;
  std::uint32_t version = 0;
};

class Execution {
 public:
  Execution(const SimulationProgram& program, const EngineLimits& limits)
      : program_(program),
        limits_(limits),
        begun_(Clock::now()),
        share_(program),
        on_route_(program.routes.size()),
        waits_(program.activities.size()),
        parts_(program.activities.size()) {
    const std::size_t count = program.activities.size();
    timeline_.start_s.resize(count);
    timeline_.end_s.resize(count);
    timeline_.engine = kOwnEngine;
    list_followers();
  }

  Timeline run() {
    for (std::size_t i = 0; i < waits_.size(); ++i) {
      if (waits_[i] == 0) ready_.push_back(static_cast<Index>(i));
    }
    start_ready();
    for (std::size_t events = 0; !queue_.empty(); ++events) {
      if (events % kEventsPerLook == 0) look_at_limits();
      advance();
    }
    if (ended_ != waits_.size()) {
      throw InputError(fmt::format("{} of {} activities can never start: they wait for each other",
                                   waits_.size() - ended_, waits_.size()));
    }
    timeline_.total_s = now_s_;
    return std::move(timeline_);
  }

 private:
  // followers_[first_follower_[i] … first_follower_[i + 1]) wait for activity i.
  void list_followers() {
    const auto& activities = program_.activities;
    first_follower_.assign(activities.size() + 1, 0);
    for (std::size_t i = 0; i < activities.size(); ++i) {
      waits_[i] = activities[i].after.size();
      for (const Index before : activities[i].after) ++first_follower_[at(before) + 1];
    }
    for (std::size_t i = 0; i < activities.size(); ++i) first_follower_[i + 1] += first_follower_[i];
    followers_.resize(first_follower_.back());
    std::vector<std::size_t> next(first_follower_.begin(), first_follower_.end() - 1);
    for (std::size_t i = 0; i < activities.size(); ++i) {
      for (const Index before : activities[i].after) followers_[next[at(before)]++] = static_cast<Index>(i);
    }
  }

  void look_at_limits() const {
    if (limits_.stop != nullptr && limits_.stop->load()) throw SimulatorError("the simulation was stopped");
    if (std::chrono::steady_clock::now() >= limits_.end) throw SimulatorError("the time for simulations is over");
    if (std::chrono::duration<double>(Clock::now() - begun_).count() > limits_.seconds) {
      throw SimulatorError(fmt::format("the simulation took more than {:g} s", limits_.seconds));
    }
  }

  // Everything that happens at the time of the next event.
  void advance() {
    if (is_past(queue_.top())) {
      queue_.pop();
      return;
    }
    now_s_ = queue_.top().at_s;
    const double until_s = now_s_ * (1 + kTogether);
    while (!queue_.empty() && queue_.top().at_s <= until_s) {
      const Event event = queue_.top();
      queue_.pop();
      if (is_past(event)) continue;
      switch (event.what) {
        case Happening::delay_over: end_part(event.who); break;
        case Happening::latency_over:
          start_flow(event.who, program_.activities[at(event.who)].flows[event.version]);
          end_part(event.who);
          break;
        case Happening::flow_over: end_flow(event.who); break;
      }
    }
    start_ready();
  }

  bool is_past(const Event& event) const {
    return event.what == Happening::flow_over && moving_[at(event.who)].version != event.version;
  }

  void start(Index i) {
    const SimulatedActivity& activity = program_.activities[at(i)];
    timeline_.start_s[at(i)] = now_s_;
    parts_[at(i)] = 1;  // held until all of it has been started
    if (activity.seconds > 0) {
      ++parts_[at(i)];
      queue_.push({now_s_ + activity.seconds, Happening::delay_over, i, 0});
    }
    for (std::size_t k = 0; k < activity.flows.size(); ++k) {
      const SimulatedFlow& flow = activity.flows[k];
      if (flow.latency_s > 0) {
        ++parts_[at(i)];
        queue_.push({now_s_ + flow.latency_s, Happening::latency_over, i, static_cast<std::uint32_t>(k)});
      } else {
        start_flow(i, flow);
      }
    }
    end_part(i);
  }

  void start_flow(Index activity, const SimulatedFlow& flow) {
    if (flow.bytes <= 0 || !share_.is_shared(flow.route)) return;
    ++parts_[at(activity)];
    Index slot = static_cast<Index>(moving_.size());
    if (free_slots_.empty()) {
      moving_.emplace_back();
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    std::vector<Index>& beside = on_route_[at(flow.route)];
    moving_[at(slot)] = {activity, flow.route, static_cast<Index>(beside.size()), flow.bytes,
                         now_s_,   0,          moving_[at(slot)].version};
    beside.push_back(slot);
    share_.add(flow.route);
    unsettled_ = true;
  }

  void end_flow(Index slot) {
    Moving& flow = moving_[at(slot)];
    ++flow.version;
    std::vector<Index>& beside = on_route_[at(flow.route)];
    moving_[at(beside.back())].place = flow.place;
    beside[at(flow.place)] = beside.back();
    beside.pop_back();
    free_slots_.push_back(slot);
    share_.remove(flow.route);
    unsettled_ = true;
    end_part(flow.activity);
  }

  void end_part(Index i) {
    if (--parts_[at(i)] > 0) return;
    ++ended_;
    timeline_.end_s[at(i)] = now_s_;
    for (std::size_t k = first_follower_[at(i)]; k < first_follower_[at(i) + 1]; ++k) {
      if (--waits_[at(followers_[k])] == 0) ready_.push_back(followers_[k]);
    }
  }

  // A list instead of recursion: chains of joins can be long.
  void start_ready() {
    while (!ready_.empty()) {
      const Index next = ready_.back();
      ready_.pop_back();
      start(next);
    }
    if (unsettled_) promise_ends();
  }

  // Flows whose rate is new move on at it, and end at another time.
  void promise_ends() {
    unsettled_ = false;
    for (const Index route : share_.settle()) {
      const double rate = share_.rate(route);
      for (const Index slot : on_route_[at(route)]) {
        Moving& flow = moving_[at(slot)];
        if (flow.rate == rate) continue;
        flow.left = std::max(0.0, flow.left - flow.rate * (now_s_ - flow.since_s));
        flow.since_s = now_s_;
        flow.rate = rate;
        queue_.push({now_s_ + flow.left / rate, Happening::flow_over, slot, ++flow.version});
      }
    }
  }

  const SimulationProgram& program_;
  const EngineLimits& limits_;
  Clock::time_point begun_;
  FairShare share_;
  std::priority_queue<Event> queue_;
  std::vector<Moving> moving_;
  std::vector<Index> free_slots_;
  std::vector<std::vector<Index>> on_route_;  // flows under way
  std::vector<std::size_t> waits_;            // activities that each waits for
  std::vector<std::size_t> parts_;            // of each, under way
  std::vector<std::size_t> first_follower_;
  std::vector<Index> followers_;
  std::vector<Index> ready_;
  std::size_t ended_ = 0;
  double now_s_ = 0;
  bool unsettled_ = false;
  Timeline timeline_;
};

}  // namespace

Timeline execute(const SimulationProgram& program, const EngineLimits& limits) {
  return Execution(program, limits).run();
}

}  // namespace nest::simulate
