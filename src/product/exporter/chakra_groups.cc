#include "exporter/chakra_groups.h"

#include <map>
#include <utility>

namespace nest::exporter {
namespace {

bool exchanges(const simulate::StageWork& work, groups::Weights weights) {
  for (const simulate::StateTraffic* traffic : {&work.in_forward, &work.in_backward, &work.reduce, &work.gather}) {
    for (const simulate::StateCall& call : traffic->calls) {
      if (call.weights == weights && call.bytes > 0) return true;
    }
  }
  return false;
}

// Every group divided by innermost units, or the members in the same place of each.
std::vector<std::vector<std::int64_t>> groups_by_unit(const cluster::Cluster& cluster, const GroupSpec& spec,
                                                      bool lanes) {
  std::vector<std::vector<std::int64_t>> divided;
  for (const std::vector<std::int64_t>& members : list_groups(spec)) {
    std::map<std::int64_t, std::vector<std::int64_t>> parts;
    std::map<std::int64_t, std::int64_t> places;
    for (const std::int64_t device : members) {
      const std::int64_t unit = cluster.fabric.levels > 1 ? cluster.fabric.unit_of(1, device) : 0;
      parts[lanes ? places[unit]++ : unit].push_back(device);
    }
    for (auto& [key, part] : parts) divided.push_back(std::move(part));
  }
  return divided;
}

}  // namespace

const char* to_string(TraceGroup group) {
  constexpr std::array kNames = {"tensor",         "context",       "context heads",  "context ring", "expert",
                                 "expert tensor",  "tensor expert", "expert unit",    "expert lane",  "dense shard",
                                 "dense replicas", "expert shard",  "expert replicas"};
  static_assert(kNames.size() == kTraceGroups);
  return kNames[static_cast<std::size_t>(group)];
}

TraceGroups::TraceGroups(const cluster::Cluster& cluster, const groups::RankGroups& ranks,
                         const simulate::PlanWork& work) {
  using groups::Kind;
  for (const auto& [group, kind] : {std::pair{TraceGroup::tensor, groups::Kind::tensor},
                                    {TraceGroup::context, groups::Kind::context},
                                    {TraceGroup::expert, groups::Kind::expert},
                                    {TraceGroup::expert_tensor, groups::Kind::expert_tensor}}) {
    for (std::int64_t s = 0; s < ranks.stages(); ++s) add(ranks, group, ranks.groups(kind, s));
  }
  for (std::int64_t s = 0; s < ranks.stages(); ++s) {
    if (ranks.split_of(s).cp_comm != ContextExchange::a2a_p2p) continue;
    const groups::RankGroups::ContextParts parts = ranks.context_parts(s);
    add(ranks, TraceGroup::context_heads, parts.heads);
    add(ranks, TraceGroup::context_ring, parts.ring);
  }
  for (std::int64_t s = 0; s < ranks.stages(); ++s) {
    const GroupSpec routed = ranks.groups(work.routed, s);
    if (work.routed == Kind::tensor_expert) add(ranks, TraceGroup::tensor_expert, routed);
    if (!work.forwards || routed.size() < 2) continue;
    add(ranks, TraceGroup::expert_unit, groups_by_unit(cluster, routed, false));
    add(ranks, TraceGroup::expert_lane, groups_by_unit(cluster, routed, true));
  }
  const auto add_state = [&](groups::Weights weights, bool replicas, TraceGroup group) {
    for (std::int64_t s = 0; s < ranks.stages(); ++s) {
      const simulate::StageWork& of_stage = work.stages[static_cast<std::size_t>(s)];
      if (!exchanges(of_stage, weights)) continue;
      const std::int64_t degree = weights == groups::Weights::dense ? of_stage.dense_degree : of_stage.expert_degree;
      const groups::StateGroups state = ranks.state(weights, s, degree);
      add(ranks, group, replicas ? state.replicate : state.shard);
    }
  };
  add_state(groups::Weights::dense, false, TraceGroup::dense_shard);
  add_state(groups::Weights::dense, true, TraceGroup::dense_replicas);
  add_state(groups::Weights::expert, false, TraceGroup::expert_shard);
  add_state(groups::Weights::expert, true, TraceGroup::expert_replicas);
}

void TraceGroups::add(const groups::RankGroups& ranks, TraceGroup kind, const GroupSpec& spec) {
  if (spec.size() > 1) add(ranks, kind, list_groups(spec));
}

void TraceGroups::add(const groups::RankGroups& ranks, TraceGroup kind,
                      std::vector<std::vector<std::int64_t>> devices) {
  std::vector<std::int32_t>& of_rank = of_rank_[static_cast<std::size_t>(kind)];
  for (std::vector<std::int64_t>& members : devices) {
    if (members.size() < 2) continue;
    of_rank.resize(static_cast<std::size_t>(ranks.grid().world()));
    for (std::int64_t& member : members) member = ranks.number_of(member);
    groups_.push_back(std::move(members));
    ++counts_[static_cast<std::size_t>(kind)];
    for (const std::int64_t rank : groups_.back()) {
      of_rank[static_cast<std::size_t>(rank)] = static_cast<std::int32_t>(groups_.size());
    }
  }
}

std::int32_t TraceGroups::group_of(TraceGroup kind, std::int64_t rank) const {
  const std::vector<std::int32_t>& of_rank = of_rank_[static_cast<std::size_t>(kind)];
  return of_rank.empty() ? 0 : of_rank[static_cast<std::size_t>(rank)];
}

}  // namespace nest::exporter
