// The grid over which nest's plans are held against all others that are known, and an order in which it is gone through.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/job.h"
#include "nest/plan.h"

namespace nest {

struct RegretCase {
  std::string network, model;
  std::int64_t devices = 0;
  std::int64_t batch = 0;  // sequences

  std::string id() const;
  bool operator==(const RegretCase&) const = default;
};

// Every network (networks.h) with every model, size and number of tokens per step (millions; one sequence for every
// eight devices at least). Sizes that a network does not come in are left out.
std::vector<RegretCase> regret_grid(const std::vector<std::string>& models, const std::vector<std::int64_t>& devices,
                                    const std::vector<std::int64_t>& tokens);

// The same cases, drawn: round after round one of every network that has any left, networks and their cases in random
// order. However many are taken from the front, they are a sample without preference, and networks count alike in it.
std::vector<RegretCase> drawn(const std::vector<RegretCase>& grid, std::uint32_t seed);

// Sound plans that fit and differ from `plan` in one to three decisions, drawn: degrees, micro-batch, chunks, placement,
// sharding, recomputation, deferral, layers moved between any two stages. Fewer than `count` where that many draws in
// ten are of no use.
std::vector<Plan> neighbours(const cost::Job& job, const Plan& plan, std::int64_t count, std::uint32_t seed);

}  // namespace nest
