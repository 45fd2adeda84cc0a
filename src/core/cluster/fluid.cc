#include "cluster/fluid.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace nest {
namespace {

enum class Phase : std::uint8_t { waiting, latency, transfer, done };

struct State {
  Phase phase = Phase::waiting;
  std::int64_t steps_left = 0;
  double latency_left_s = 0;
  double bytes_left = 0;
  double rate = 0;
  std::size_t blockers = 0;
};

class Player {
 public:
  Player(std::span<const double> links, std::span<const FluidTask> tasks)
      : links_(links), tasks_(tasks), states_(tasks.size()), ends_(tasks.size()), followers_(tasks.size()) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      states_[i].blockers = tasks[i].after.size();
      for (const std::size_t earlier : tasks[i].after) followers_[earlier].push_back(i);
    }
  }

  std::vector<double> run() {
    double now_s = 0;
    std::size_t running = tasks_.size();
    while (running > 0) {
      for (std::size_t i = 0; i < tasks_.size(); ++i) start_if_ready(i, now_s);
      share_links();
      const double wait_s = next_event_s(now_s);
      NEST_CHECK(wait_s < std::numeric_limits<double>::infinity(), "tasks wait for each other in a circle");
      now_s += wait_s;
      for (std::size_t i = 0; i < tasks_.size(); ++i) running -= advance(i, wait_s, now_s) ? 1 : 0;
    }
    return ends_;
  }

 private:
  void start_if_ready(std::size_t i, double now_s) {
    State& state = states_[i];
    if (state.phase != Phase::waiting || state.blockers > 0 || tasks_[i].start_s > now_s) return;
    state.steps_left = tasks_[i].steps;
    begin_step(i);
  }

  void begin_step(std::size_t i) {
    states_[i].latency_left_s = tasks_[i].latency_s;
    states_[i].bytes_left = tasks_[i].loads.empty() ? 0 : tasks_[i].bytes;
    states_[i].phase = tasks_[i].latency_s > 0 ? Phase::latency : Phase::transfer;
  }

  // Progressive filling: the link with the smallest fair share fixes the rates of all that cross it; repeat with the
  // rest.
  void share_links() {
    std::vector<double> left(links_.begin(), links_.end());
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].phase == Phase::transfer && states_[i].bytes_left > 0) open.push_back(i);
    }
    while (!open.empty()) {
      std::vector<double> flows(links_.size());
      for (const std::size_t i : open) {
        for (const LinkLoad& load : tasks_[i].loads) flows[load.link] += load.flows;
      }
      std::size_t tightest = links_.size();
      double share = std::numeric_limits<double>::infinity();
      for (std::size_t l = 0; l < links_.size(); ++l) {
        if (flows[l] > 0 && left[l] / flows[l] < share) {
          share = left[l] / flows[l];
          tightest = l;
        }
      }
      NEST_CHECK(tightest < links_.size(), "a transfer loads no link");
      std::vector<std::size_t> rest;
      for (const std::size_t i : open) {
        const auto& loads = tasks_[i].loads;
        const bool crosses = std::any_of(loads.begin(), loads.end(),
                                         [&](const LinkLoad& load) { return load.link == tightest && load.flows > 0; });
        if (!crosses) {
          rest.push_back(i);
          continue;
        }
        states_[i].rate = share;
        for (const LinkLoad& load : loads) left[load.link] = std::max(0.0, left[load.link] - share * load.flows);
      }
      open = std::move(rest);
    }
  }

  double next_event_s(double now_s) const {
    double wait_s = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const State& state = states_[i];
      if (state.phase == Phase::waiting && state.blockers == 0) wait_s = std::min(wait_s, tasks_[i].start_s - now_s);
      if (state.phase == Phase::latency) wait_s = std::min(wait_s, state.latency_left_s);
      if (state.phase == Phase::transfer)
        wait_s = std::min(wait_s, state.bytes_left > 0 ? state.bytes_left / state.rate : 0);
    }
    return wait_s;
  }

  // True when the task ends now.
  bool advance(std::size_t i, double wait_s, double now_s) {
    constexpr double kRounding = 1e-12;
    State& state = states_[i];
    if (state.phase == Phase::latency) {
      state.latency_left_s -= wait_s;
      if (state.latency_left_s <= kRounding * tasks_[i].latency_s) state.phase = Phase::transfer;
      return false;
    }
    if (state.phase != Phase::transfer) return false;
    if (state.bytes_left > 0) state.bytes_left -= state.rate * wait_s;
    if (state.bytes_left > 1e-9 * tasks_[i].bytes) return false;
    if (--state.steps_left > 0) {
      begin_step(i);
      return false;
    }
    state.phase = Phase::done;
    ends_[i] = now_s;
    for (const std::size_t follower : followers_[i]) --states_[follower].blockers;
    return true;
  }

  std::span<const double> links_;
  std::span<const FluidTask> tasks_;
  std::vector<State> states_;
  std::vector<double> ends_;
  std::vector<std::vector<std::size_t>> followers_;
};

}  // namespace

std::vector<double> play(std::span<const double> link_bytes_per_s, std::span<const FluidTask> tasks) {
  return Player(link_bytes_per_s, tasks).run();
}

double overlapped_s(std::span<const double> link_bytes_per_s, std::span<const FluidTask> tasks) {
  std::vector<double> drain_s(link_bytes_per_s.size());
  std::vector<double> first_s(link_bytes_per_s.size(), std::numeric_limits<double>::infinity());
  std::vector<double> latency_s(link_bytes_per_s.size());
  double last_s = 0;
  for (const FluidTask& task : tasks) {
    const double steps = static_cast<double>(task.steps);
    double slowest_s = 0;
    for (const LinkLoad& load : task.loads) {
      const double carry_s = steps * task.bytes * load.flows / link_bytes_per_s[load.link];
      slowest_s = std::max(slowest_s, carry_s);
      drain_s[load.link] += carry_s;
      first_s[load.link] = std::min(first_s[load.link], task.start_s);
      latency_s[load.link] = std::max(latency_s[load.link], steps * task.latency_s);
    }
    last_s = std::max(last_s, task.start_s + steps * task.latency_s + slowest_s);
  }
  for (std::size_t l = 0; l < drain_s.size(); ++l) {
    if (drain_s[l] > 0) last_s = std::max(last_s, first_s[l] + drain_s[l] + latency_s[l]);
  }
  return last_s;
}

}  // namespace nest
