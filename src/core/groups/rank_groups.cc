#include "groups/rank_groups.h"

#include <algorithm>

#include "base/error.h"

namespace nest::groups {
namespace {

std::vector<Stride> joined(std::vector<Stride> axes, const std::vector<Stride>& more) {
  axes.insert(axes.end(), more.begin(), more.end());
  return axes;
}

}  // namespace

RankGroups::RankGroups(const Strategy& strategy)
    : grid_(strategy),
      split_(strategy.split),
      inner_(strategy.split.replica_devices()),
      block_(strategy.block()),
      pitch_(strategy.effective_pitch()) {}

const Split& RankGroups::split_of(std::int64_t stage) const {
  NEST_CHECK(stage >= 0 && stage < stages(), "a stage of the strategy");
  return split_;
}

std::int64_t RankGroups::device_of(const StageRank& place) const {
  return place.rank / block_ * pitch_ + place.stage * block_ + place.rank % block_;
}

std::int64_t RankGroups::device_of(const Place& place) const {
  return device_of(StageRank{place.stage, place.replica * inner_ + place.inner});
}

std::optional<Place> RankGroups::place_of(std::int64_t device) const {
  const std::int64_t outer = device / pitch_, inside = device % pitch_;
  const std::int64_t rank = outer * block_ + inside % block_;
  if (inside >= block_ * stages() || rank >= grid_.ranks_per_stage()) return std::nullopt;
  return Place{inside / block_, rank / inner_, rank % inner_};
}

std::int64_t RankGroups::number_of(std::int64_t device) const {
  return device / pitch_ * (block_ * stages()) + device % pitch_;
}

std::int64_t RankGroups::device_number(std::int64_t number) const {
  const std::int64_t pipeline = block_ * stages();
  return number / pipeline * pitch_ + number % pipeline;
}

std::vector<Stride> RankGroups::on_devices(const std::vector<Stride>& ranks) const {
  std::vector<Stride> axes;
  for (const Stride& axis : ranks) {
    if (axis.stride >= block_) {
      axes.push_back({axis.stride / block_ * pitch_, axis.count});
    } else if (axis.stride * axis.count <= block_) {
      axes.push_back(axis);
    } else {
      const std::int64_t inside = block_ / axis.stride;
      axes.push_back({axis.stride, inside});
      axes.push_back({pitch_, axis.count / inside});
    }
  }
  return axes;
}

GroupSpec RankGroups::groups(Kind kind, std::int64_t stage) const {
  if (kind == Kind::pipeline) return {0, {stage_axis()}, on_devices({{1, grid_.ranks_per_stage()}})};
  return {stage * block_, on_devices(grid_.members(kind)), on_devices(grid_.siblings(kind))};
}

RankGroups::ContextParts RankGroups::context_parts(std::int64_t stage) const {
  const GroupSpec all = groups(Kind::context, stage);
  const Division division = divide(all.members, split_.context_heads());
  NEST_CHECK(division.even, "ranks that trade heads divide the context ranks");
  return {{all.first, division.inside, joined(all.siblings, division.outside)},
          {all.first, division.outside, joined(all.siblings, division.inside)}};
}

StateGroups RankGroups::state(Weights weights, std::int64_t stage, std::int64_t degree) const {
  const GroupSpec all = groups(replicas_of(weights), stage);
  const Division division = divide(all.members, degree);
  NEST_CHECK(division.even, "a sharding degree divides its group");
  return {{all.first, division.inside, joined(all.siblings, division.outside)},
          {all.first, division.outside, joined(all.siblings, division.inside)}};
}

bool RankGroups::can_shard(std::int64_t degree) const {
  if (degree == 0) return true;
  return degree > 0 && degree <= size(Kind::dense) && divide(on_devices(grid_.members(Kind::dense)), degree).even;
}

ZeroDegrees RankGroups::zero_degrees(std::int64_t degree) const {
  const std::int64_t dense = size(Kind::dense), expert = size(Kind::expert_data);
  if (degree <= 0 || degree >= dense) return {dense, expert};
  std::int64_t share = std::max<std::int64_t>(1, expert * degree / dense);
  const std::vector<Stride> members = on_devices(grid_.members(Kind::expert_data));
  while (share > 1 && !divide(members, share).even) --share;
  return {degree, share};
}

ZeroDegrees zero_degrees(const Strategy& strategy, std::int64_t degree) {
  const std::int64_t dense = dense_replicas(strategy);
  if (degree <= 0 || degree >= dense) return {dense, expert_replicas(strategy)};
  return RankGroups(strategy).zero_degrees(degree);
}
bool can_shard(const Strategy& strategy, std::int64_t degree) { return RankGroups(strategy).can_shard(degree); }

}  // namespace nest::groups
