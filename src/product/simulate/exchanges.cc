#include "simulate/exchanges.h"

#include <fmt/format.h>

#include <algorithm>

namespace nest::simulate {
namespace {

constexpr std::size_t kMostKnown = 1024;  // of a cache; a search meets some hundreds

Strategy placing(const Strategy& strategy) {
  Strategy placed;
  placed.split.tp = strategy.split.tp;
  placed.split.cp = strategy.split.cp;
  placed.split.ep = strategy.split.ep;
  placed.split.etp = strategy.split.expert_tp();
  placed.pp = strategy.pp;
  placed.dp = strategy.dp;
  placed.dp_inner = strategy.dp_inner;
  placed.pitch = strategy.effective_pitch();
  return placed;
}

// Stages that lie alike make equal calls: what was chosen for one holds for all.
class Chooser {
 public:
  Chooser(const cluster::Cluster& cluster, const groups::RankGroups& ranks) : cluster_(cluster), ranks_(ranks) {}

  cluster::Algorithm of(const StateCall& call, std::int64_t stage, std::int64_t degree) {
    const auto [place, fresh] = known_.try_emplace({call.weights, call.between, degree, call.call_bytes});
    if (fresh) {
      const groups::StateGroups state = ranks_.state(call.weights, stage, degree);
      place->second =
          group_algorithm(cluster_, call.between ? state.replicate : state.shard, ranks_.stage_axis(), call.call_bytes);
    }
    return place->second;
  }

 private:
  const cluster::Cluster& cluster_;
  const groups::RankGroups& ranks_;
  std::map<std::tuple<groups::Weights, bool, std::int64_t, double>, cluster::Algorithm> known_;
};

}  // namespace

ExchangeRoutes::ExchangeRoutes(const cluster::Cluster& cluster, const Strategy& strategy, const PlanWork& work,
                               const schedule::Chain& chain, Merge merging)
    : placed(placing(strategy)), merge(merging), routed(work.routed), state(work.stages.size()) {
  const auto add_message = [&](std::int64_t from, std::int64_t to) {
    const std::pair way{from, to};
    if (std::find(messages.begin(), messages.end(), way) == messages.end()) messages.push_back(way);
  };
  for (std::int64_t link = 0; link + 1 < chain.shape().positions(); ++link) {
    const std::int64_t lower = chain.place(link).stage, upper = chain.place(link + 1).stage;
    add_message(lower, upper);
    add_message(upper, lower);
  }
  const groups::RankGroups ranks(placed);
  Chooser chooser(cluster, ranks);
  for (std::size_t s = 0; s < work.stages.size(); ++s) {
    const StageWork& stage = work.stages[s];
    for (const StateTraffic* traffic : {&stage.in_forward, &stage.in_backward, &stage.reduce, &stage.gather}) {
      for (const StateCall& call : traffic->calls) {
        const bool known = std::any_of(state[s].begin(), state[s].end(), [&](const State& other) {
          return other.weights == call.weights && other.between == call.between;
        });
        if (known) continue;
        const std::int64_t degree = call.weights == groups::Weights::dense ? stage.dense_degree : stage.expert_degree;
        const cluster::Algorithm algorithm = chooser.of(call, static_cast<std::int64_t>(s), degree);
        state[s].push_back({call.weights, call.between, degree, algorithm});
      }
    }
    std::array<Tokens, 2>& passes = tokens.emplace_back();
    for (const bool backward : {false, true}) {
      const TokenTraffic& traffic = backward ? stage.from_experts : stage.to_experts;
      Tokens& sent = passes[backward ? 1 : 0];
      if (traffic.empty()) continue;
      if (traffic.gathered_bytes <= 0) {
        sent = {Tokens::Way::routed, traffic.inside_bytes > 0, traffic.unit_bytes > 0};
      } else {
        sent.way = Tokens::Way::gathered;
        sent.algorithm = group_algorithm(cluster, ranks.groups(routed, static_cast<std::int64_t>(s)),
                                         ranks.stage_axis(), traffic.gathered_bytes / traffic.calls);
      }
    }
  }
}

std::vector<std::int64_t> ExchangeRoutes::name() const {
  const auto number = [](auto word) { return static_cast<std::int64_t>(word); };
  std::vector<std::int64_t> name = {
      placed.split.tp, placed.split.cp, placed.split.ep, placed.split.etp,        placed.pp,     placed.dp,
      placed.dp_inner, placed.pitch,    number(merge),   number(messages.size()), number(routed)};
  for (const auto& [from, to] : messages) name.insert(name.end(), {from, to});
  for (const std::vector<State>& calls : state) {
    name.push_back(number(calls.size()));
    for (const State& call : calls) {
      name.insert(name.end(), {number(call.weights), number(call.between), call.degree, number(call.algorithm)});
    }
  }
  for (const std::array<Tokens, 2>& passes : tokens) {
    for (const Tokens& sent : passes) {
      name.insert(name.end(), {number(sent.way), number(sent.inside), number(sent.beyond), number(sent.algorithm)});
    }
  }
  return name;
}

class Exchanges::Builder {
 public:
  Builder(const cluster::Cluster& cluster, const ExchangeRoutes& routes, Exchanges& made)
      : cluster_(cluster), routes_(routes), made_(made), ranks_(routes.placed), network_(cluster) {}

  void build() {
    for (const auto& [from, to] : routes_.messages) add_messages(from, to);
    for (std::size_t s = 0; s < routes_.state.size(); ++s) {
      const auto stage = static_cast<std::int64_t>(s);
      for (const ExchangeRoutes::State& call : routes_.state[s]) add_state(stage, call);
      for (const bool backward : {false, true}) add_tokens(stage, backward, routes_.tokens[s][backward ? 1 : 0]);
    }
    made_.symmetry_ =
        find_symmetry(network_.links(), std::move(flows_), routes_.placed.teams(), exchanges_, routes_.merge);
  }

 private:
  void add_flow(std::int32_t replica, std::int64_t count, double bytes, NetworkPath path, bool beyond = false) {
    flows_.push_back({exchanges_, replica, count, bytes, std::move(path), beyond});
  }

  void add_messages(std::int64_t from, std::int64_t to) {
    for (std::int64_t rank = 0; rank < ranks_.grid().ranks_per_stage(); ++rank) {
      const std::int64_t source = ranks_.device_of(groups::StageRank{from, rank});
      const std::int64_t target = ranks_.device_of(groups::StageRank{to, rank});
      // Replicas that share experts wait for each other: a team runs as one.
      add_flow(static_cast<std::int32_t>(rank / ranks_.split_of(from).team_devices()), 1, 1,
               network_.path(source, target));
    }
    made_.messages_[{from, to}] = exchanges_++;
  }

  // A rank's bytes for its unit go to its neighbour there (in a full mesh to all ranks of it evenly), those for another unit
  // to the rank in its own place there: every link carries as much as if each rank sent to all others, and dispatchers that
  // forward do send that way.
  void add_routed(std::int64_t stage, const ExchangeRoutes::Tokens& tokens) {
    const Split& split = ranks_.split_of(stage);
    const std::int64_t set = split.ep * split.expert_tp();
    const bool whole = routes_.routed == groups::Kind::tensor_expert;
    const std::int64_t members = whole ? set : split.ep, stride = whole ? 1 : split.expert_tp();
    const auto send = [&](std::int64_t rank, std::int64_t from, std::int64_t to, double bytes, bool beyond) {
      if (beyond ? !tokens.beyond : !tokens.inside) return;
      NetworkPath path = network_.path(from, to);
      path.latency_s = 1;  // of the dispatcher's
      add_flow(static_cast<std::int32_t>(rank / split.team_devices()), 1, bytes, std::move(path), beyond);
    };
    for (std::int64_t first = 0; first < ranks_.grid().ranks_per_stage(); ++first) {
      if (first % set >= stride) continue;  // no group begins here
      // Ranks and devices of the group, unit by unit.
      std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> units;
      for (std::int64_t e = 0; e < members; ++e) {
        const std::int64_t rank = first + e * stride, device = ranks_.device_of(groups::StageRank{stage, rank});
        units[cluster_.fabric.levels > 1 ? cluster_.fabric.unit_of(1, device) : 0].emplace_back(rank, device);
      }
      for (const auto& [unit, own] : units) {
        for (std::size_t i = 0; i < own.size(); ++i) {
          const auto& [rank, device] = own[i];
          if (cluster_.fabric.full_mesh) {
            for (std::size_t k = 0; k < own.size(); ++k) {
              if (k != i) send(rank, device, own[k].second, 1 / static_cast<double>(own.size() - 1), false);
            }
          } else if (own.size() > 1) {
            send(rank, device, own[(i + 1) % own.size()].second, 1, false);
          }
          for (const auto& [other, ranks] : units) {
            if (other != unit) send(rank, device, ranks[i % ranks.size()].second, 1, true);
          }
        }
      }
    }
  }

  void add_tokens(std::int64_t stage, bool backward, const ExchangeRoutes::Tokens& tokens) {
    std::vector<std::int32_t>& added = made_.tokens_[{stage, backward}];
    if (tokens.way == ExchangeRoutes::Tokens::Way::none) return;
    if (tokens.way == ExchangeRoutes::Tokens::Way::routed) {
      add_routed(stage, tokens);
      added.push_back(exchanges_++);
      return;
    }
    const GroupExchange exchange = group_exchange(cluster_, ranks_.groups(routes_.routed, stage), tokens.algorithm);
    if (exchange.transfers.empty()) {
      made_.as_predicted_.push_back(fmt::format("{} of tokens", to_string(exchange.algorithm)));
    }
    for (const std::vector<GroupFlow>& flows : exchange.transfers) {
      for (const GroupFlow& flow : flows) {
        const std::int64_t replica = ranks_.place_of(flow.from)->replica;
        add_group_flow(static_cast<std::int32_t>(replica / ranks_.split_of(stage).team()), flow);
      }
      added.push_back(exchanges_++);
    }
  }

  void add_state(std::int64_t stage, const ExchangeRoutes::State& call) {
    std::vector<std::int32_t>& added = made_.states_[{stage, call.weights, call.between}];
    const groups::StateGroups state = ranks_.state(call.weights, stage, call.degree);
    const GroupExchange exchange =
        group_exchange(cluster_, call.between ? state.replicate : state.shard, call.algorithm);
    if (exchange.transfers.empty()) {
      const std::string note = fmt::format("{} exchange of {} weights", to_string(exchange.algorithm),
                                           call.weights == groups::Weights::dense ? "dense" : "expert");
      std::vector<std::string>& notes = made_.as_predicted_;
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
    }
    for (const std::vector<GroupFlow>& flows : exchange.transfers) {
      for (const GroupFlow& flow : flows) add_group_flow(-1, flow);
      added.push_back(exchanges_++);
    }
  }

  void add_group_flow(std::int32_t replica, const GroupFlow& flow) {
    NetworkPath path = network_.path(flow.from, flow.to, flow.falling);
    path.latency_s *= static_cast<double>(flow.steps);
    add_flow(replica, flow.count, flow.share, std::move(path));
  }

  const cluster::Cluster& cluster_;
  const ExchangeRoutes& routes_;
  Exchanges& made_;
  groups::RankGroups ranks_;
  Network network_;
  std::int32_t exchanges_ = 0;
  std::vector<PhysicalFlow> flows_;
};

Exchanges::Exchanges(const cluster::Cluster& cluster, const ExchangeRoutes& routes) {
  Builder(cluster, routes, *this).build();
}

Amount amount_of(const StateCall& call, double share) { return {share * call.bytes, share * call.calls}; }

Amount amount_of(const TokenTraffic& tokens, double share) {
  if (tokens.gathered_bytes > 0) return {share * tokens.gathered_bytes, share * tokens.calls};
  return {share * tokens.inside_bytes, share * tokens.latency_s, share * tokens.unit_bytes};
}

std::shared_ptr<const Exchanges> ExchangeCache::get(const Strategy& strategy, const PlanWork& work,
                                                    const schedule::Chain& chain, Merge merge) {
  const ExchangeRoutes routes(cluster_, strategy, work, chain, merge);
  std::vector<std::int64_t> name = routes.name();
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(name); known != known_.end()) return known->second;
  }
  // Two threads may build one: they are equal.
  auto made = std::make_shared<const Exchanges>(cluster_, routes);
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  return known_.try_emplace(std::move(name), std::move(made)).first->second;
}

}  // namespace nest::simulate
