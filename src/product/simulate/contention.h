// Who waits for whom on the network: transfers that take longer than they would alone, the link on which they are
// slowed, what else is under way there meanwhile, and when in the step that is.
//
// A transfer alone takes at least
//     max( max over flows [latency + bytes / narrowest link], max over links [least latency + all bytes / capacity] )
// (a flow that loads a link k times counts k times there). What it takes beyond that it lost to others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulate/lower.h"

namespace nest::simulate {

struct SlowedTransfers {
  std::string what;                 // "messages from stage 1 to stage 2", "gradients of stage 0"
  std::int64_t count = 0;           // transfers of a step that were slowed
  double taken_s = 0;               // by those, all together
  double alone_s = 0;               // at least, with every link to themselves
  std::string link;                 // the one that they need longest
  std::int64_t alike = 1;           // links that behave like it
  std::vector<std::string> beside;  // other transfers on that link meanwhile, those that are there longest first
  double begin_s = 0, end_s = 0;    // since the start of the step: the first that was slowed begins, the last ends

  double lost_s() const { return taken_s - alone_s; }
};

// "gradients of stage 0 take 2.10 times as long as alone (30 ms of 57 ms lost), on … beside …, 95 % to 100 % of the step".
std::string to_text(const SlowedTransfers& slowed, double step_s);

// Of the last step of a timeline, the most lost first; what loses less than `least` of the step is left out.
std::vector<SlowedTransfers> slowed_transfers(const LoweredPlan& plan, const Timeline& timeline, double least = 1e-3);

// Seconds of a transfer with every link to itself, at least.
double alone_seconds(const SimulationProgram& program, const SimulatedActivity& transfer);

}  // namespace nest::simulate
