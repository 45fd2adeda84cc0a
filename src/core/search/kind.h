// What readers would call another plan.
#pragma once

#include "nest/strategy.h"

namespace nest::search {

// The same tp, cp, ep, etp, stages and schedule. Micro-batch, sequence parallelism, chunks, replicas, placement and what
// stages do about memory are details.
inline bool same_kind(const Strategy& a, const Strategy& b) {
  return a.split.tp == b.split.tp && a.split.cp == b.split.cp && a.split.ep == b.split.ep &&
         a.split.expert_tp() == b.split.expert_tp() && a.pp == b.pp && a.schedule == b.schedule;
}

}  // namespace nest::search
