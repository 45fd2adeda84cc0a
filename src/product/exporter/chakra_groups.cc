#include "exporter/chakra_groups.h"

#include <algorithm>

namespace nest {
namespace {

// Groups of one stage whose members lie inside the devices of one replica.
GroupSpec inside_stage(const Strategy& strategy, std::int64_t stage, std::vector<Stride> members,
                       std::vector<Stride> siblings) {
  const std::int64_t a = strategy.devices_per_stage();
  siblings.push_back({a, strategy.dp_inner});
  siblings.push_back({strategy.effective_pitch(), strategy.dp / strategy.dp_inner});
  return {stage * a * strategy.dp_inner, std::move(members), std::move(siblings)};
}

bool exchanges(const StageWork& work, Weights weights) {
  for (const StateTraffic* traffic : {&work.in_forward, &work.in_backward, &work.reduce, &work.gather}) {
    for (const StateCall& call : traffic->calls) {
      if (call.weights == weights && call.bytes > 0) return true;
    }
  }
  return false;
}

}  // namespace

const char* to_string(TraceGroup group) {
  constexpr std::array kNames = {"tensor",         "context",      "expert",         "dense shard",
                                 "dense replicas", "expert shard", "expert replicas"};
  static_assert(kNames.size() == kTraceGroups);
  return kNames[static_cast<std::size_t>(group)];
}

std::int64_t rank_of_device(const Strategy& strategy, std::int64_t device) {
  return device / strategy.effective_pitch() * strategy.pipeline_block() + device % strategy.effective_pitch();
}

RankPlace place_of_rank(const Strategy& strategy, std::int64_t rank) {
  const std::int64_t a = strategy.devices_per_stage();
  const std::int64_t outer = rank / strategy.pipeline_block(), rest = rank % strategy.pipeline_block();
  RankPlace place;
  place.stage = rest / (a * strategy.dp_inner);
  place.replica = outer * strategy.dp_inner + rest / a % strategy.dp_inner;
  place.inner = rest % a;
  place.device = device_of(strategy, place.replica, place.stage, place.inner);
  return place;
}

TraceGroups::TraceGroups(const Strategy& strategy, const PlanWork& work) {
  const Split& split = strategy.split;
  const Stride tensor{1, split.tp}, context{split.tp, split.cp}, expert{split.tp * split.cp, split.ep};
  // Experts that are not tensor parallel are spread over the tensor-parallel ranks too.
  const bool folded = split.expert_tp() < split.tp;
  for (auto& of_rank : of_rank_) of_rank.assign(static_cast<std::size_t>(strategy.devices_used()), 0);
  const auto each_stage = [&](auto&& spec_of, TraceGroup kind) {
    for (std::int64_t s = 0; s < strategy.pp; ++s) add(strategy, kind, spec_of(s));
  };
  each_stage(
      [&](std::int64_t s) {
        return inside_stage(strategy, s, {tensor}, {context, expert});
      },
      TraceGroup::tensor);
  each_stage(
      [&](std::int64_t s) {
        return inside_stage(strategy, s, {context}, {tensor, expert});
      },
      TraceGroup::context);
  each_stage(
      [&](std::int64_t s) {
        return folded ? inside_stage(strategy, s, {tensor, expert}, {context})
                      : inside_stage(strategy, s, {expert}, {tensor, context});
      },
      TraceGroup::expert);
  const auto state = [&](Weights weights, bool replicas) {
    return [&, weights, replicas](std::int64_t s) {
      const StageWork& of_stage = work.stages[static_cast<std::size_t>(s)];
      if (!exchanges(of_stage, weights)) return GroupSpec{};
      const std::int64_t degree = weights == Weights::dense ? of_stage.dense_degree : of_stage.expert_degree;
      const StateGroups groups = state_groups(strategy, s, weights, degree);
      return replicas ? groups.replicate : groups.shard;
    };
  };
  each_stage(state(Weights::dense, false), TraceGroup::dense_shard);
  each_stage(state(Weights::dense, true), TraceGroup::dense_replicas);
  each_stage(state(Weights::expert, false), TraceGroup::expert_shard);
  each_stage(state(Weights::expert, true), TraceGroup::expert_replicas);
}

void TraceGroups::add(const Strategy& strategy, TraceGroup kind, const GroupSpec& spec) {
  if (spec.size() < 2) return;
  for (std::vector<std::int64_t>& members : list_groups(spec)) {
    for (std::int64_t& member : members) member = rank_of_device(strategy, member);
    std::sort(members.begin(), members.end());
    groups_.push_back(std::move(members));
    ++counts_[static_cast<std::size_t>(kind)];
    for (const std::int64_t rank : groups_.back()) {
      of_rank_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(rank)] =
          static_cast<std::int32_t>(groups_.size());
    }
  }
}

std::int32_t TraceGroups::group_of(TraceGroup kind, std::int64_t rank) const {
  return of_rank_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(rank)];
}

}  // namespace nest
