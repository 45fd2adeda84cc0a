// How long a program (program.h) takes at least, without executing it. O(activities).
//
// Sharing a link makes no flow faster and changes nothing of what waits for what, so these are lower bounds:
//     path   the longest path through the activities, each as long as it is alone on the network: a transfer at least
//            as its slowest flow, and as the work of all of its flows on every link
//     link   of every link: the earliest start of an activity that uses it, all the work on it, and the least time
//            that passes after such an activity
#pragma once

#include <cstdint>

#include "simulate/program.h"

namespace nest::simulate {

struct LeastTime {
  double path_s = 0;
  double link_s = 0;
  std::int32_t link = -1;  // of link_s

  double seconds() const { return path_s > link_s ? path_s : link_s; }
};

// The program must be sound (refuse_program) and without circles.
LeastTime least_time(const SimulationProgram& program);

}  // namespace nest::simulate
