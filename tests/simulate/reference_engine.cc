#include "reference_engine.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace nest::test {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Flow {
  std::size_t activity;
  std::size_t route;
  double left;
  double rate = 0;
};

struct Delay {
  std::size_t activity;
  double ends;
  const simulate::SimulatedFlow* then;  // the flow whose latency this is
};

class Engine {
 public:
  explicit Engine(const simulate::SimulationProgram& program) : program_(program) {
    const std::size_t count = program.activities.size();
    waits_.resize(count);
    parts_.resize(count);
    timeline_.start_s.resize(count);
    timeline_.end_s.resize(count);
    timeline_.engine = "reference";
  }

  simulate::Timeline run() {
    for (std::size_t i = 0; i < program_.activities.size(); ++i) waits_[i] = program_.activities[i].after.size();
    for (std::size_t i = 0; i < program_.activities.size(); ++i) {
      if (program_.activities[i].after.empty()) start(i);
    }
    while (!delays_.empty() || !flows_.empty()) advance();
    if (ended_ != program_.activities.size()) throw std::runtime_error("activities wait for each other");
    timeline_.total_s = now_;
    return timeline_;
  }

 private:
  void start(std::size_t i) {
    const simulate::SimulatedActivity& activity = program_.activities[i];
    timeline_.start_s[i] = now_;
    parts_[i] = 1;
    if (activity.seconds > 0) add_delay({i, now_ + activity.seconds, nullptr});
    for (const simulate::SimulatedFlow& flow : activity.flows) {
      if (flow.latency_s > 0) {
        add_delay({i, now_ + flow.latency_s, &flow});
      } else {
        add_flow(i, flow);
      }
    }
    end_part(i);
  }

  void add_delay(const Delay& delay) {
    ++parts_[delay.activity];
    delays_.push_back(delay);
  }

  void add_flow(std::size_t i, const simulate::SimulatedFlow& flow) {
    if (flow.bytes <= 0 || program_.routes[static_cast<std::size_t>(flow.route)].loads.empty()) return;
    ++parts_[i];
    flows_.push_back({i, static_cast<std::size_t>(flow.route), flow.bytes});
  }

  void end_part(std::size_t i) {
    if (--parts_[i] > 0) return;
    ++ended_;
    timeline_.end_s[i] = now_;
    for (std::size_t next = 0; next < program_.activities.size(); ++next) {
      const auto& after = program_.activities[next].after;
      const auto times = std::count(after.begin(), after.end(), static_cast<std::int32_t>(i));
      if (times > 0 && (waits_[next] -= static_cast<std::size_t>(times)) == 0) start(next);
    }
  }

  // Progressive filling: raise all rates together; whoever meets a full link stops.
  void share() {
    std::vector<double> free;
    for (const simulate::SimulatedLink& link : program_.links) free.push_back(link.bytes_per_s);
    std::vector<bool> fixed(flows_.size(), false);
    for (std::size_t left = flows_.size(); left > 0;) {
      std::vector<double> load(free.size(), 0);
      for (std::size_t f = 0; f < flows_.size(); ++f) {
        if (fixed[f]) continue;
        for (const simulate::RouteLoad& on : loads(f))
          load[static_cast<std::size_t>(on.link)] += static_cast<double>(on.times);
      }
      double rate = kNever;
      for (std::size_t l = 0; l < free.size(); ++l) {
        if (load[l] > 0) rate = std::min(rate, free[l] / load[l]);
      }
      std::vector<bool> full(free.size());
      for (std::size_t l = 0; l < free.size(); ++l) full[l] = load[l] > 0 && free[l] / load[l] <= rate * (1 + 1e-12);
      for (std::size_t f = 0; f < flows_.size(); ++f) {
        const auto meets = [&](const simulate::RouteLoad& on) { return full[static_cast<std::size_t>(on.link)]; };
        if (fixed[f] || std::none_of(loads(f).begin(), loads(f).end(), meets)) continue;
        flows_[f].rate = rate;
        fixed[f] = true;
        --left;
        for (const simulate::RouteLoad& on : loads(f)) {
          free[static_cast<std::size_t>(on.link)] -= rate * static_cast<double>(on.times);
        }
      }
    }
  }
  const std::vector<simulate::RouteLoad>& loads(std::size_t flow) const {
    return program_.routes[flows_[flow].route].loads;
  }

  void advance() {
    share();
    double next = kNever;
    for (const Delay& delay : delays_) next = std::min(next, delay.ends);
    for (const Flow& flow : flows_) next = std::min(next, now_ + flow.left / flow.rate);
    const double passed = next - now_;
    for (Flow& flow : flows_) flow.left -= passed * flow.rate;
    now_ = next;
    std::vector<std::size_t> ended;
    std::erase_if(flows_, [&](const Flow& flow) {
      const bool ends = flow.left <= flow.rate * 1e-12 * std::max(1.0, now_);
      if (ends) ended.push_back(flow.activity);
      return ends;
    });
    std::vector<Delay> over;
    std::erase_if(delays_, [&](const Delay& delay) {
      const bool ends = delay.ends <= now_ * (1 + 1e-14);
      if (ends) over.push_back(delay);
      return ends;
    });
    for (const Delay& delay : over) {
      if (delay.then) add_flow(delay.activity, *delay.then);
      ended.push_back(delay.activity);
    }
    for (const std::size_t activity : ended) end_part(activity);
  }

  const simulate::SimulationProgram& program_;
  std::vector<std::size_t> waits_, parts_;
  std::vector<Flow> flows_;
  std::vector<Delay> delays_;
  std::size_t ended_ = 0;
  double now_ = 0;
  simulate::Timeline timeline_;
};

}  // namespace

simulate::Timeline reference_execute(const simulate::SimulationProgram& program) { return Engine(program).run(); }

}  // namespace nest::test
