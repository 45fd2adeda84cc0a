// A strategy as people write it: "tp=8,pp=16,dp=64,vpp=2,mbs=1,sp=1,recompute=selective,zero=1".
//
// Keys are the dimensions of a plan (dimensions.h). What is left out is 1, off, or derived: dp fills the devices,
// schedule is interleaved when vpp > 1, zero is the stack's default, and all replicas of a stage stand side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace nest::plan {

struct StrategyRequest {
  Strategy strategy;
  bool dp_given = false;
  std::int64_t edp = 0;         // replicas of the experts as they were written; 0: not written
  bool exchange_given = false;  // cp_comm
  bool inner_given = false;     // dp_inner
  Recomputation recompute;
  std::optional<int> zero;
  std::int64_t zero_degree = 0;  // 0: the whole data-parallel group
  bool zero_outer = false;
};

// Throws InputError that names `source` (a flag), the key, the value and what is allowed.
StrategyRequest parse_strategy(std::string_view text, std::string_view source = "--strategy");

// As many replicas as fit on `devices`; keeps a dp that was given. Throws InputError when not even one fits.
void fill_devices(StrategyRequest& request, std::int64_t devices);

// "tp=8 sp pp=4 vpp=2 dp=16 mbs=1", without what is 1 or off; after dp where experts have a grid of their own, "edp=4".
std::string strategy_text(const Strategy& strategy);

// The same with what all stages do alike, "… zero=1 recompute=full", and where replicas sit if not side by side. Parsed
// again it is the plan, where that cuts its stages evenly and treats them alike.
std::string strategy_text(const Plan& plan);

}  // namespace nest::plan
