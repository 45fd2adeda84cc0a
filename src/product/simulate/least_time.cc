#include "simulate/least_time.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/index.h"

namespace nest::simulate {
namespace {

// Work that flows put on links, in seconds of each.
class LinkWork {
 public:
  explicit LinkWork(const SimulationProgram& program) : program_(program), seconds_(program.links.size()) {}

  // Of one flow; returns its own on the link where it has most.
  double add(const SimulatedFlow& flow) {
    double most = 0;
    for (const RouteLoad& load : program_.routes[at(flow.route)].loads) {
      const double work_s = real(load.times) * flow.bytes / program_.links[at(load.link)].bytes_per_s;
      if (seconds_[at(load.link)] == 0) touched_.push_back(load.link);
      seconds_[at(load.link)] += work_s;
      most = std::max(most, work_s);
    }
    return most;
  }

  const std::vector<std::int32_t>& touched() const { return touched_; }
  double of(std::int32_t link) const { return seconds_[at(link)]; }

  void clear() {
    for (const std::int32_t link : touched_) seconds_[at(link)] = 0;
    touched_.clear();
  }

 private:
  const SimulationProgram& program_;
  std::vector<double> seconds_;
  std::vector<std::int32_t> touched_;
};

// Every activity after those it waits for.
std::vector<std::size_t> in_order(const SimulationProgram& program) {
  const std::size_t count = program.activities.size();
  std::vector<std::size_t> waits(count), first(count + 1);
  for (std::size_t i = 0; i < count; ++i) {
    waits[i] = program.activities[i].after.size();
    for (const std::int32_t before : program.activities[i].after) ++first[at(before) + 1];
  }
  for (std::size_t i = 0; i < count; ++i) first[i + 1] += first[i];
  std::vector<std::size_t> waiting(first[count]), filled(first.begin(), first.end() - 1), order;
  order.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::int32_t before : program.activities[i].after) waiting[filled[at(before)]++] = i;
    if (waits[i] == 0) order.push_back(i);
  }
  for (std::size_t k = 0; k < order.size(); ++k) {
    for (std::size_t w = first[order[k]]; w < first[order[k] + 1]; ++w) {
      if (--waits[waiting[w]] == 0) order.push_back(waiting[w]);
    }
  }
  return order;
}

struct SpanOnLink {
  double work_s = 0;
  double start_s = std::numeric_limits<double>::infinity();
  double after_s = std::numeric_limits<double>::infinity();
};

}  // namespace

LeastTime least_time(const SimulationProgram& program) {
  const std::size_t count = program.activities.size();
  std::vector<double> alone_s(count), start_s(count), after_s(count);
  std::vector<SpanOnLink> uses(program.links.size());
  LinkWork work(program);
  LeastTime least;
  const std::vector<std::size_t> order = in_order(program);
  for (const std::size_t i : order) {
    const SimulatedActivity& activity = program.activities[i];
    for (const std::int32_t before : activity.after) {
      start_s[i] = std::max(start_s[i], start_s[at(before)] + alone_s[at(before)]);
    }
    double latency_s = std::numeric_limits<double>::infinity();
    alone_s[i] = activity.seconds;
    for (const SimulatedFlow& flow : activity.flows) {
      alone_s[i] = std::max(alone_s[i], flow.latency_s + work.add(flow));
      latency_s = std::min(latency_s, flow.latency_s);
    }
    for (const std::int32_t link : work.touched()) {
      alone_s[i] = std::max(alone_s[i], latency_s + work.of(link));
      SpanOnLink& use = uses[at(link)];
      use.work_s += work.of(link);
      use.start_s = std::min(use.start_s, start_s[i] + latency_s);
    }
    work.clear();
    least.path_s = std::max(least.path_s, start_s[i] + alone_s[i]);
  }
  for (std::size_t k = order.size(); k-- > 0;) {
    const std::size_t i = order[k];
    const SimulatedActivity& activity = program.activities[i];
    for (const std::int32_t before : activity.after) {
      after_s[at(before)] = std::max(after_s[at(before)], after_s[i] + alone_s[i]);
    }
    for (const SimulatedFlow& flow : activity.flows) {
      for (const RouteLoad& load : program.routes[at(flow.route)].loads) {
        uses[at(load.link)].after_s = std::min(uses[at(load.link)].after_s, after_s[i]);
      }
    }
  }
  for (std::size_t l = 0; l < uses.size(); ++l) {
    if (uses[l].work_s <= 0) continue;
    const double seconds = uses[l].start_s + uses[l].work_s + uses[l].after_s;
    if (seconds <= least.link_s) continue;
    least.link_s = seconds;
    least.link = static_cast<std::int32_t>(l);
  }
  return least;
}

}  // namespace nest::simulate
