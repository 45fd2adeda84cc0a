#include "simulate/exchanges.h"

#include <fmt/format.h>

#include <algorithm>

namespace nest::simulate {

Exchanges::Exchanges(const cost::Job& job, const Strategy& strategy, const PlanWork& work, const schedule::Chain& chain,
                     Merge merge)
    : cluster_(job.cluster), ranks_(strategy), network_(job.cluster) {
  for (std::int64_t link = 0; link + 1 < chain.shape().positions(); ++link) {
    const std::int64_t lower = chain.place(link).stage, upper = chain.place(link + 1).stage;
    add_messages(lower, upper);
    add_messages(upper, lower);
  }
  for (std::size_t s = 0; s < work.stages.size(); ++s) {
    const StageWork& stage = work.stages[s];
    for (const StateTraffic* traffic : {&stage.in_forward, &stage.in_backward, &stage.reduce, &stage.gather}) {
      add_state(static_cast<std::int64_t>(s), *traffic, stage);
    }
    add_tokens(static_cast<std::int64_t>(s), false, work.routed, stage.to_experts);
    add_tokens(static_cast<std::int64_t>(s), true, work.routed, stage.from_experts);
  }
  symmetry_ = find_symmetry(network_.links(), std::move(flows_), strategy.teams(), exchanges_, merge);
}

void Exchanges::add_flow(std::int32_t replica, std::int64_t count, double bytes, NetworkPath path) {
  flows_.push_back({exchanges_, replica, count, bytes, std::move(path)});
}

void Exchanges::add_messages(std::int64_t from, std::int64_t to) {
  if (!messages_.try_emplace({from, to}, exchanges_).second) return;
  for (std::int64_t rank = 0; rank < ranks_.grid().ranks_per_stage(); ++rank) {
    const std::int64_t source = ranks_.device_of(groups::StageRank{from, rank});
    const std::int64_t target = ranks_.device_of(groups::StageRank{to, rank});
    // Replicas that share experts wait for each other: a team runs as one.
    add_flow(static_cast<std::int32_t>(rank / ranks_.split_of(from).team_devices()), 1, 1,
             network_.path(source, target));
  }
  ++exchanges_;
}

// A rank's bytes for its unit go to its neighbour there (in a full mesh to all ranks of it evenly), those for another unit to the rank in its own place there: every
// link carries as much as if each rank sent to all others, and dispatchers that forward do send that way.
void Exchanges::add_routed(std::int64_t stage, groups::Kind among, const TokenTraffic& traffic) {
  const Split& split = ranks_.split_of(stage);
  const std::int64_t set = split.ep * split.expert_tp();
  const bool whole = among == groups::Kind::tensor_expert;
  const std::int64_t members = whole ? set : split.ep, stride = whole ? 1 : split.expert_tp();
  const auto send = [&](std::int64_t rank, std::int64_t from, std::int64_t to, double bytes) {
    if (bytes <= 0) return;
    NetworkPath path = network_.path(from, to);
    path.latency_s = traffic.latency_s;
    add_flow(static_cast<std::int32_t>(rank / split.team_devices()), 1, bytes, std::move(path));
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
            if (k != i) send(rank, device, own[k].second, traffic.inside_bytes / static_cast<double>(own.size() - 1));
          }
        } else if (own.size() > 1) {
          send(rank, device, own[(i + 1) % own.size()].second, traffic.inside_bytes);
        }
        for (const auto& [other, ranks] : units) {
          if (other != unit) send(rank, device, ranks[i % ranks.size()].second, traffic.unit_bytes);
        }
      }
    }
  }
}

void Exchanges::add_tokens(std::int64_t stage, bool backward, groups::Kind among, const TokenTraffic& traffic) {
  std::vector<std::int32_t>& added = tokens_[{stage, backward}];
  if (traffic.empty()) return;
  if (traffic.gathered_bytes <= 0) {
    add_routed(stage, among, traffic);
    added.push_back(exchanges_++);
    return;
  }
  const GroupExchange exchange = group_exchange(cluster_, ranks_.groups(among, stage), ranks_.stage_axis(),
                                                traffic.gathered_bytes / traffic.calls);
  if (exchange.transfers.empty()) as_predicted_.push_back(fmt::format("{} of tokens", to_string(exchange.algorithm)));
  for (const std::vector<GroupFlow>& flows : exchange.transfers) {
    for (const GroupFlow& flow : flows) {
      NetworkPath path = network_.path(flow.from, flow.to, flow.falling);
      path.latency_s *= traffic.calls * static_cast<double>(flow.steps);
      const std::int64_t replica = ranks_.place_of(flow.from)->replica;
      add_flow(static_cast<std::int32_t>(replica / ranks_.split_of(stage).team()), flow.count,
               flow.share * traffic.gathered_bytes, std::move(path));
    }
    added.push_back(exchanges_++);
  }
}

void Exchanges::add_state(std::int64_t stage, const StateTraffic& traffic, const StageWork& work) {
  for (const StateCall& call : traffic.calls) {
    const auto [entry, added] = states_.try_emplace({stage, call.weights, call.between}, std::vector<std::int32_t>());
    if (!added) continue;
    const std::int64_t degree = call.weights == groups::Weights::dense ? work.dense_degree : work.expert_degree;
    const groups::StateGroups state = ranks_.state(call.weights, stage, degree);
    const GroupExchange exchange =
        group_exchange(cluster_, call.between ? state.replicate : state.shard, ranks_.stage_axis(), call.call_bytes);
    if (exchange.transfers.empty()) {
      const std::string note = fmt::format("{} exchange of {} weights", to_string(exchange.algorithm),
                                           call.weights == groups::Weights::dense ? "dense" : "expert");
      if (std::find(as_predicted_.begin(), as_predicted_.end(), note) == as_predicted_.end()) {
        as_predicted_.push_back(note);
      }
    }
    for (const std::vector<GroupFlow>& flows : exchange.transfers) {
      for (const GroupFlow& flow : flows) {
        NetworkPath path = network_.path(flow.from, flow.to, flow.falling);
        path.latency_s *= static_cast<double>(flow.steps);
        add_flow(-1, flow.count, flow.share, std::move(path));
      }
      entry->second.push_back(exchanges_++);
    }
  }
}

}  // namespace nest::simulate
