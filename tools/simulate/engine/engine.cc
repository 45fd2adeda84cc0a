// SimGrid's part: its clock, links and flows. Delays are timers of its kernel.
//
// The network model is CM02 with everything taken off that imitates TCP over wide areas: no reverse traffic, no limit
// by window and latency, no factors, and no weighting by round-trip time, which means links without latency (latencies
// are delays before the flow). What is left is max-min fair sharing. SimGrid's precisions are absolute, so times are
// microseconds. Sizes are integers there: bytes and capacities are counted in 1/1024 bytes.
#include "engine.h"

#include <fmt/format.h>
#include <xbt/log.h>

#include <simgrid/version.h>
#include <cmath>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <unordered_map>

#include "base/error.h"

namespace nest {
namespace {

namespace sg = simgrid::s4u;

constexpr double kMicro = 1e6;
constexpr double kScale = 1024;

class Executor {
 public:
  explicit Executor(const simulate::SimulationProgram& program)
      : program_(program), states_(program.activities.size()) {
    build_platform();
    timeline_.start_s.resize(program.activities.size());
    timeline_.end_s.resize(program.activities.size());
    for (std::size_t i = 0; i < program.activities.size(); ++i) {
      states_[i].waits_for = program.activities[i].after.size();
      for (const std::int32_t before : program.activities[i].after) {
        states_[static_cast<std::size_t>(before)].followers.push_back(i);
      }
    }
  }

  simulate::Timeline run() {
    sg::Activity::on_completion_cb([this](const sg::Activity& activity) { on_end(activity); });
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].waits_for == 0 && !states_[i].started) ready_.push_back(i);
    }
    start_ready();
    sg::Engine::get_instance()->run();
    if (ended_ != states_.size()) {
      throw InputError(fmt::format("{} of {} activities can never start: they wait for each other",
                                   states_.size() - ended_, states_.size()));
    }
    timeline_.total_s = sg::Engine::get_clock() / kMicro;
    int major = 0, minor = 0, patch = 0;
    sg_version_get(&major, &minor, &patch);
    timeline_.engine = fmt::format("SimGrid {}.{}", major, minor);
    return std::move(timeline_);
  }

 private:
  struct State {
    std::size_t waits_for = 0;
    std::size_t parts = 0;  // flows and delays under way
    bool started = false;
    std::vector<std::size_t> followers;
  };
  void build_platform() {
    auto* root = sg::create_full_zone("root");
    std::vector<sg::Link*> links;
    for (std::size_t i = 0; i < program_.links.size(); ++i) {
      links.push_back(
          root->create_link(fmt::format("l{}", i), program_.links[i].bytes_per_s * kScale / kMicro)->seal());
    }
    // A zone of two hosts per route: their own table of routes stays tiny.
    for (std::size_t i = 0; i < program_.routes.size(); ++i) {
      auto* zone = sg::create_full_zone(fmt::format("z{}", i));
      zone->set_parent(root);
      sg::Host* from = zone->create_host(fmt::format("a{}", i), 1.0)->seal();
      sg::Host* to = zone->create_host(fmt::format("b{}", i), 1.0)->seal();
      std::vector<sg::LinkInRoute> route;
      for (const simulate::RouteLoad& load : program_.routes[i].loads) {
        for (std::int64_t k = 0; k < load.times; ++k) {
          route.emplace_back(links[static_cast<std::size_t>(load.link)]);
        }
      }
      if (!route.empty()) zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
      zone->seal();
      ends_.emplace_back(from, to);
    }
    root->seal();
  }

  void start(std::size_t index) {
    State& state = states_[index];
    state.started = true;
    timeline_.start_s[index] = sg::Engine::get_clock() / kMicro;
    const simulate::SimulatedActivity& activity = program_.activities[index];
    state.parts = 1;  // held until all flows have been started
    if (activity.seconds > 0) start_delay(index, activity.seconds, nullptr);
    for (const simulate::SimulatedFlow& flow : activity.flows) {
      if (flow.latency_s > 0) {
        start_delay(index, flow.latency_s, &flow);
      } else {
        start_flow(index, flow);
      }
    }
    end_part(index);
  }

  void start_delay(std::size_t index, double seconds, const simulate::SimulatedFlow* next) {
    ++states_[index].parts;
    simgrid::kernel::timer::Timer::set(sg::Engine::get_clock() + seconds * kMicro, [this, index, next] {
      if (next) start_flow(index, *next);
      end_part(index);
      start_ready();
    });
  }

  void start_flow(std::size_t index, const simulate::SimulatedFlow& flow) {
    const auto units = static_cast<std::uint64_t>(std::llround(flow.bytes * kScale));
    if (units == 0 || program_.routes[static_cast<std::size_t>(flow.route)].loads.empty()) return;
    ++states_[index].parts;
    const auto& [from, to] = ends_[static_cast<std::size_t>(flow.route)];
    sg::CommPtr comm = sg::Comm::sendto_init(from, to);
    comm->set_payload_size(units);
    running_[comm.get()] = {index, comm};
    comm->start();
  }

  void on_end(const sg::Activity& activity) {
    const auto entry = running_.find(&activity);
    if (entry == running_.end()) return;
    const auto [index, comm] = entry->second;  // keeps the flow alive until this returns
    running_.erase(entry);
    end_part(index);
    start_ready();
  }

  void end_part(std::size_t index) {
    if (--states_[index].parts > 0) return;
    ++ended_;
    timeline_.end_s[index] = sg::Engine::get_clock() / kMicro;
    for (const std::size_t follower : states_[index].followers) {
      if (--states_[follower].waits_for == 0) ready_.push_back(follower);
    }
  }

  // A list instead of recursion: chains of joins can be long.
  void start_ready() {
    while (!ready_.empty()) {
      const std::size_t next = ready_.back();
      ready_.pop_back();
      start(next);
    }
  }

  const simulate::SimulationProgram& program_;
  std::vector<State> states_;
  std::vector<std::pair<sg::Host*, sg::Host*>> ends_;  // of every route
  std::vector<std::size_t> ready_;
  std::unordered_map<const sg::Activity*, std::pair<std::size_t, sg::CommPtr>> running_;
  std::size_t ended_ = 0;
  simulate::Timeline timeline_;
};

}  // namespace

simulate::Timeline execute(const simulate::SimulationProgram& program) {
  char name[] = "nest-simulate";
  char quiet[] = "--log=root.threshold:error";
  int argc = 2;
  char* argv[] = {name, quiet, nullptr};
  sg::Engine engine(&argc, argv);
  for (const char* setting :
       {"cpu/model:Cas01", "network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:1e300",
        "network/weight-S:0", "network/bandwidth-factor:1", "network/latency-factor:1"}) {
    sg::Engine::set_config(std::string(setting));
  }
  return Executor(program).run();
}

}  // namespace nest
