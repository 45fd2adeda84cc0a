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

void Exchanges::add_state(std::int64_t stage, const StateTraffic& traffic, const StageWork& work) {
  for (const StateCall& call : traffic.calls) {
    const auto [entry, added] = states_.try_emplace({stage, call.weights, call.between}, std::vector<std::int32_t>());
    if (!added) continue;
    const std::int64_t degree = call.weights == groups::Weights::dense ? work.dense_degree : work.expert_degree;
    const groups::StateGroups state = ranks_.state(call.weights, stage, degree);
    const GroupExchange exchange =
        group_exchange(cluster_, call.between ? state.replicate : state.shard, ranks_.stage_axis());
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
