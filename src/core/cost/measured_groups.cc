#include "cost/measured_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cost/group_time.h"

namespace nest::cost {
namespace {

using cluster::Collective;

// Tables that groups of this layout take their times from.
class UsedTables {
 public:
  explicit UsedTables(const cluster::Cluster& cluster) : cluster_(cluster) {}

  void add(const cluster::GroupLayout& layout, std::initializer_list<Collective> collectives) {
    if (layout.members < 2) return;
    for (const Collective collective : collectives) {
      constexpr double kAny = 1e6;  // bytes
      const auto time = cluster::measured_time(cluster_.measured, collective, layout.members,
                                               cluster::hosts_of(cluster_, layout), kAny);
      if (time && std::find(used_.begin(), used_.end(), time->table) == used_.end()) used_.push_back(time->table);
    }
  }

  bool holds(const cluster::MeasuredCollective& table) const {
    return std::find(used_.begin(), used_.end(), &table) != used_.end();
  }

 private:
  const cluster::Cluster& cluster_;
  std::vector<const cluster::MeasuredCollective*> used_;
};

}  // namespace

std::vector<std::string> measured_groups(const cluster::Cluster& cluster, const Strategy& strategy,
                                         const std::vector<StagePlan>& stages) {
  if (cluster.measured.empty()) return {};
  UsedTables used(cluster);
  const groups::RankGroups ranks(strategy);
  const auto place = [&](groups::Kind kind) { return cluster::place_group(cluster, ranks.groups(kind, 0)); };
  using enum Collective;
  if (strategy.split.sp) {
    used.add(place(groups::Kind::tensor), {all_gather, reduce_scatter});
  } else {
    used.add(place(groups::Kind::tensor), {all_reduce});
  }
  used.add(place(groups::Kind::context), {all_gather, reduce_scatter, all_to_all});
  used.add(place(groups::Kind::expert), {all_to_all});
  for (const StagePlan& stage : stages) {
    const ShardGroups state = shard_groups(cluster, strategy, stage.zero == 0 ? 0 : stage.zero_degree);
    for (const auto* layout :
         {&state.dense_shard, &state.dense_replicate, &state.expert_shard, &state.expert_replicate}) {
      used.add(*layout, {reduce_scatter});
    }
  }
  std::vector<std::string> texts;
  for (const cluster::MeasuredCollective& table : cluster.measured) {
    if (!used.holds(table)) continue;
    texts.push_back(fmt::format("{} of {} ranks on {} ({})", to_string(table.collective), table.ranks,
                                table.hosts == 1 ? "1 host" : fmt::format("{} hosts", table.hosts),
                                clip(table.source, 60)));
  }
  return texts;
}

}  // namespace nest::cost
