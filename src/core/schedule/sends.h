// What a stage waits for after it has handed on its output, besides the messages that it receives.
//
// Messages that are not overlapped keep the receiver: it asks for one when it has nothing else to do, and works on when
// the message is there. Overlapped ones travel beside compute: a stage asks for the next one of a direction when it has
// ended its pass before in that direction, so a forward message hides behind backward passes and the other way round. What
// still keeps a sender, whose message then leaves at once:
//     forward sends block   its buffer is freed after the pass, so it waits until the output has gone (Megatron-Core
//                           since 0.18)
//     warm-up, cool-down    forwards before the first backward and backwards after the last forward send and receive in
//                           one blocking call, unless the flush overlaps too
#pragma once

#include <vector>

#include "schedule/operation.h"

namespace nest::schedule {

struct Sends {
  bool overlapped = false;
  bool forward_blocks = false;
  bool flush = false;  // warm-up and cool-down overlap too

  bool operator==(const Sends&) const = default;
};

// Of every operation of a stage, whether the one after it waits until its message has arrived.
std::vector<bool> held_sends(const Order& order, const Sends& sends);

}  // namespace nest::schedule
