// What a plan puts on the network in one step: which traffic, how far it goes, how long it takes, how busy that keeps
// the links.
//
// Bytes follow from the split layers, the cuts and the parameters, as the cost model prices them; collectives are
// counted as rings, exchanges of routed tokens with one copy per node. Seconds are those of the cost model:
// `exchange_s` as if nothing hid them, `waited_s` what the prediction says is waited for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/evaluate.h"
#include "html/link_load.h"

namespace nest::html {

enum class TrafficKind : std::uint8_t { tensor, context, expert, pipeline, weights, gradients };
inline constexpr std::size_t kTrafficKinds = 6;

struct Traffic {
  TrafficKind kind = TrafficKind::tensor;
  std::int64_t ranks = 1;          // that exchange with each other
  std::string reach;               // "inside a node"
  double sent_bytes = 0;           // by one device of the stage that sets the pace, per step
  double exchange_s = 0;           // of that stage, per step
  double waited_s = 0;             // of the prediction
  std::vector<double> link_bytes;  // of the whole plan, by kind of link, per step
};

struct NetworkUse {
  std::vector<LinkKind> links;   // innermost first
  std::vector<Traffic> traffic;  // what the plan has, in the order of TrafficKind

  // How long the links of this kind send traffic t in one step, on average.
  double busy_s(std::size_t link, const Traffic& t) const;
};

// The stages with their times filled in, as evaluate() returns them.
NetworkUse network_use(const cost::Job& job, const Strategy& strategy, const Plan& evaluation);

const char* to_string(TrafficKind kind);  // "tensor parallel"

}  // namespace nest::html
