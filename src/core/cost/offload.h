// Optimizer state that waits on the host and is updated there (Megatron's --optimizer-cpu-offload).
//
// Of the N parameters that a device updates, a share f: gradients of g bytes go down and weights of 2 bytes come up a
// link, and the host's processors move about 32 bytes per parameter through its memory, of which every device has a
// share B_host / G:
//     t = f N (g + 2) / link + f N 32 / (B_host / G)
// Overlapped, tensor by tensor: the longer of the two, and one tensor's way. The device updates the rest meanwhile. The
// host holds four numbers of fp32 per parameter, pinned: weight, gradient and two moments.
#pragma once

#include <cstdint>
#include <string>

#include "cost/job.h"

namespace nest::cost {

// Why the optimizer's state of this job cannot wait on the host, in one sentence; empty where it can. Strategies need
// ZeRO 1 besides.
std::string refuse_offload(const Job& job);

struct OffloadRule {
  double share = 0;                 // f
  double link_s_per_parameter = 0;  // both ways
  double host_s_per_parameter = 0;
  bool overlaps = false;

  // Of so many updated parameters, in so many tensors.
  double seconds(double parameters, double tensors) const;
};
OffloadRule offload_rule(const Job& job);

// Pinned on the host for one device that updates so many parameters.
double pinned_bytes(const Job& job, double parameters);

}  // namespace nest::cost
