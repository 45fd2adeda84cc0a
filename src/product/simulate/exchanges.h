// All traffic of a plan, device by device: which flows every message and every exchange of state has, and what of it is
// alike.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "schedule/pipeline.h"
#include "simulate/stage_work.h"
#include "simulate/symmetry.h"

namespace nest::simulate {

class Exchanges {
 public:
  Exchanges(const cost::Job& job, const Strategy& strategy, const PlanWork& work, const schedule::Chain& chain,
            Merge merge);

  // Exchange of the messages from one stage to another, in which every device sends its counterpart one byte.
  std::int32_t message(std::int64_t from, std::int64_t to) const { return messages_.at({from, to}); }
  // Exchanges, one after the other, of one pass over a buffer of one byte; empty where only its time is known.
  const std::vector<std::int32_t>& state(std::int64_t stage, const StateCall& call) const {
    return states_.at({stage, call.weights, call.between});
  }
  // Exchanges of routed tokens that follow each other in a pass of a stage; empty where only its time is known.
  const std::vector<std::int32_t>& tokens(std::int64_t stage, bool backward) const {
    return tokens_.at({stage, backward});
  }
  const Quotient& symmetry() const { return symmetry_; }
  const std::vector<std::string>& as_predicted() const { return as_predicted_; }

 private:
  void add_messages(std::int64_t from, std::int64_t to);
  void add_state(std::int64_t stage, const StateTraffic& traffic, const StageWork& work);
  void add_tokens(std::int64_t stage, bool backward, groups::Kind among, const TokenTraffic& traffic);
  void add_routed(std::int64_t stage, groups::Kind among, const TokenTraffic& traffic);
  void add_flow(std::int32_t replica, std::int64_t count, double bytes, NetworkPath path);

  const cluster::Cluster& cluster_;
  groups::RankGroups ranks_;
  Network network_;
  std::int32_t exchanges_ = 0;
  std::vector<PhysicalFlow> flows_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> messages_;
  std::map<std::tuple<std::int64_t, groups::Weights, bool>, std::vector<std::int32_t>> states_;
  std::map<std::pair<std::int64_t, bool>, std::vector<std::int32_t>> tokens_;
  Quotient symmetry_;
  std::vector<std::string> as_predicted_;
};

}  // namespace nest::simulate
