// What could be changed about somebody's own setup, one or two options at a time, and what each change would bring.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exporter/framework.h"

namespace nest::exporter {

// Where the time of a change is expected to come from: a term of the breakdown.
enum class TimeTerm : std::uint8_t {
  compute,
  imbalance,
  recompute,
  bubble,
  tensor,
  context,
  expert,
  messages,
  weights,
  gradients,
  optimizer,
  other
};
inline constexpr std::size_t kTimeTerms = 12;

// Seconds of one step by term; sums to the step. Waiting for the slowest stage is a term of its own.
std::vector<double> time_terms(const Strategy& strategy, std::int64_t global_batch, const Plan& evaluation);

// A setup as it can be varied.
struct SetupVariant {
  cost::SoftwareStack stack;
  Strategy strategy;
  std::vector<StagePlan> stages;
};

struct PricedChange {
  std::string options;  // in the framework's words: "--sequence-parallel"
  TimeTerm term = TimeTerm::compute;
  SetupVariant variant;
  Plan evaluation;
};

// All single changes that the framework can run and that fit in memory, fastest first. `job.stack` is that of `mine`.
// Pairs are combinations of the best single ones.
struct ChangeList {
  std::vector<PricedChange> single;
  std::optional<PricedChange> pair;  // the best one
};
ChangeList price_changes(launch::Framework framework, const cost::Job& job, const SetupVariant& mine,
                         const search::SearchSettings& search, search::PriceCache* prices = nullptr);

// The framework's usual stack with whatever `mine` has beyond it: what a setup can be brought to by options alone.
cost::SoftwareStack best_stack(launch::Framework framework, const cost::SoftwareStack& mine);

}  // namespace nest::exporter
