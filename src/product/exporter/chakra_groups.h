// Ranks of a trace, and the groups in which they communicate.
//
// Rank r is the r-th device that the plan uses, devices counted as the cluster counts them: where pipelines start at a
// pitch, idle devices have no rank. Groups are numbered from 1, kind by kind; a group of one is none.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "simulate/stage_work.h"

namespace nest::exporter {

enum class TraceGroup : std::uint8_t {
  tensor,
  context,
  context_heads,  // of the context ranks, those that trade heads, and those of one ring, where these are two levels
  context_ring,
  expert,
  expert_tensor,
  tensor_expert,   // ranks of a whole set of experts, where tokens travel among them
  expert_unit,     // of the ranks among which tokens travel, those of one innermost unit
  expert_lane,     // and those in the same place of all units
  dense_shard,     // ranks over which dense state is divided (or that sum dense gradients)
  dense_replicas,  // ranks with the same part of it
  expert_shard,
  expert_replicas,
};
inline constexpr std::size_t kTraceGroups = 13;
const char* to_string(TraceGroup group);

class TraceGroups {
 public:
  TraceGroups(const cluster::Cluster& cluster, const groups::RankGroups& ranks, const simulate::PlanWork& work);

  // Number of the group of this kind that the rank belongs to; 0: it is alone.
  std::int32_t group_of(TraceGroup kind, std::int64_t rank) const;
  // Members of group 1, 2, …, rising.
  const std::vector<std::vector<std::int64_t>>& groups() const { return groups_; }
  // How many groups there are of a kind; they follow each other in groups().
  std::int64_t count(TraceGroup kind) const { return counts_[static_cast<std::size_t>(kind)]; }

 private:
  void add(const groups::RankGroups& ranks, TraceGroup kind, const GroupSpec& spec);
  void add(const groups::RankGroups& ranks, TraceGroup kind, std::vector<std::vector<std::int64_t>> devices);

  std::vector<std::vector<std::int64_t>> groups_;
  std::array<std::vector<std::int32_t>, kTraceGroups> of_rank_;  // empty for kinds without groups
  std::array<std::int64_t, kTraceGroups> counts_{};
};

}  // namespace nest::exporter
