// A simulated step as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing: a track per stage and class of
// replicas, one for the exchanges of every stage, one per busy link.
#pragma once

#include <string>

#include "simulate/lower.h"

namespace nest::simulate {

inline constexpr std::size_t kTracedLinks = 16;  // the busiest

// JSON, one event per line. Times are microseconds, as the format wants them.
std::string chrome_trace(const LoweredPlan& plan, const Timeline& timeline, const std::string& title);

}  // namespace nest::simulate
