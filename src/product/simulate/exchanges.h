// All traffic of a plan, device by device: which flows every message, every exchange of state and all routed tokens have,
// and what of it is alike. How many bytes travel is not in it (Amount is beside it), so that plans which lie alike, whatever
// their micro-batches, recomputation or cuts, have it in common.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/pipeline.h"
#include "simulate/group_flows.h"
#include "simulate/stage_work.h"
#include "simulate/symmetry.h"

namespace nest::simulate {

// What decides the flows of a plan: where its ranks are, who sends to whom, by which algorithm.
struct ExchangeRoutes {
  struct State {
    groups::Weights weights = groups::Weights::dense;
    bool between = false;
    std::int64_t degree = 1;
    cluster::Algorithm algorithm = cluster::Algorithm::ring;
  };
  struct Tokens {
    enum class Way : std::uint8_t { none, routed, gathered } way = Way::none;
    bool inside = false, beyond = false;                      // routed: to the own unit, to others
    cluster::Algorithm algorithm = cluster::Algorithm::ring;  // gathered
  };

  ExchangeRoutes(const cluster::Cluster& cluster, const Strategy& strategy, const PlanWork& work,
                 const schedule::Chain& chain, Merge merge);

  // Equal where all of it is.
  std::vector<std::int64_t> name() const;

  Strategy placed;  // what places ranks, nothing else
  Merge merge = Merge::alike;
  groups::Kind routed = groups::Kind::expert;
  std::vector<std::pair<std::int64_t, std::int64_t>> messages;  // from a stage to another
  std::vector<std::vector<State>> state;                        // by stage
  std::vector<std::array<Tokens, 2>> tokens;                    // by stage, of forward and backward passes
};

class Exchanges {
 public:
  Exchanges(const cluster::Cluster& cluster, const ExchangeRoutes& routes);

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
  class Builder;

  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> messages_;
  std::map<std::tuple<std::int64_t, groups::Weights, bool>, std::vector<std::int32_t>> states_;
  std::map<std::pair<std::int64_t, bool>, std::vector<std::int32_t>> tokens_;
  Quotient symmetry_;
  std::vector<std::string> as_predicted_;
};

// Of a share of a call's bytes and latencies, and of a share of a pass's tokens.
Amount amount_of(const StateCall& call, double share);
Amount amount_of(const TokenTraffic& tokens, double share);

// Exchanges of the plans of one cluster, built once for all that lie alike. Thread-safe.
class ExchangeCache {
 public:
  // The cluster must outlive it, unchanged.
  explicit ExchangeCache(const cluster::Cluster& cluster) : cluster_(cluster) {}

  std::shared_ptr<const Exchanges> get(const Strategy& strategy, const PlanWork& work, const schedule::Chain& chain,
                                       Merge merge);

 private:
  const cluster::Cluster& cluster_;
  std::mutex mutex_;
  std::map<std::vector<std::int64_t>, std::shared_ptr<const Exchanges>> known_;
};

}  // namespace nest::simulate
