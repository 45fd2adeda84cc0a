#include "simulate/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nest::simulate {
namespace {

constexpr double kTolerance = 1e-6;  // relative, of the whole timeline

bool sound(double value) { return std::isfinite(value) && value >= 0; }

bool in_range(std::int32_t index, std::size_t size) { return index >= 0 && static_cast<std::size_t>(index) < size; }

std::string refuse_activity(const SimulationProgram& program, std::size_t index) {
  const SimulatedActivity& activity = program.activities[index];
  if (!sound(activity.seconds)) return fmt::format("activity {} lasts {} s", index, activity.seconds);
  if (activity.seconds > 0 && !activity.flows.empty()) return fmt::format("activity {} has seconds and flows", index);
  for (const SimulatedFlow& flow : activity.flows) {
    if (!in_range(flow.route, program.routes.size())) return fmt::format("activity {}: no route {}", index, flow.route);
    if (!sound(flow.latency_s) || !sound(flow.bytes)) {
      return fmt::format("activity {}: a flow of {} bytes after {} s", index, flow.bytes, flow.latency_s);
    }
  }
  for (const std::int32_t before : activity.after) {
    if (!in_range(before, program.activities.size())) {
      return fmt::format("activity {} waits for activity {}, which is not there", index, before);
    }
  }
  return {};
}

// The least time that an activity can take, whatever else happens.
double least_s(const SimulationProgram& program, const SimulatedActivity& activity) {
  double least = activity.seconds;
  for (const SimulatedFlow& flow : activity.flows) {
    double rate = std::numeric_limits<double>::infinity();
    for (const RouteLoad& load : program.routes[static_cast<std::size_t>(flow.route)].loads) {
      rate = std::min(rate,
                      program.links[static_cast<std::size_t>(load.link)].bytes_per_s / static_cast<double>(load.times));
    }
    least = std::max(least, flow.latency_s + flow.bytes / rate);
  }
  return least;
}

}  // namespace

std::string refuse_program(const SimulationProgram& program) {
  for (std::size_t i = 0; i < program.links.size(); ++i) {
    if (!sound(program.links[i].bytes_per_s) || program.links[i].bytes_per_s == 0) {
      return fmt::format("link {} carries {} bytes/s", i, program.links[i].bytes_per_s);
    }
  }
  for (std::size_t i = 0; i < program.routes.size(); ++i) {
    for (const RouteLoad& load : program.routes[i].loads) {
      if (!in_range(load.link, program.links.size()) || load.times < 1) {
        return fmt::format("route {} loads link {} {} times", i, load.link, load.times);
      }
    }
  }
  for (std::size_t i = 0; i < program.activities.size(); ++i) {
    if (std::string reason = refuse_activity(program, i); !reason.empty()) return reason;
  }
  return {};
}

std::string refuse_timeline(const SimulationProgram& program, const Timeline& timeline) {
  const std::size_t count = program.activities.size();
  if (timeline.start_s.size() != count || timeline.end_s.size() != count) {
    return fmt::format("{} starts and {} ends for {} activities", timeline.start_s.size(), timeline.end_s.size(),
                       count);
  }
  double last = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!sound(timeline.start_s[i]) || !sound(timeline.end_s[i])) {
      return fmt::format("activity {} is said to run from {} to {} s", i, timeline.start_s[i], timeline.end_s[i]);
    }
    last = std::max(last, timeline.end_s[i]);
  }
  const double slack = kTolerance * last + 1e-9;
  if (std::abs(timeline.total_s - last) > slack) {
    return fmt::format("the end is said to be at {} s, the last activity ends at {} s", timeline.total_s, last);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const SimulatedActivity& activity = program.activities[i];
    for (const std::int32_t before : activity.after) {
      if (timeline.start_s[i] < timeline.end_s[static_cast<std::size_t>(before)] - slack) {
        return fmt::format("activity {} starts before activity {} has ended", i, before);
      }
    }
    if (timeline.end_s[i] - timeline.start_s[i] < least_s(program, activity) - slack) {
      return fmt::format("activity {} is faster than possible", i);
    }
  }
  return {};
}

}  // namespace nest::simulate
