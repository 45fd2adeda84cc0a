// Where the ranks of a strategy sit, and the groups that they form there: the one place that knows.
//
// Rank ρ of stage s (groups/grid.h) sits on device
//     ⌊ρ / A⌋ · pitch + s · A + ρ mod A,          A = d_in · tp · cp
// so that a block of A devices holds d_in replicas of a stage, the blocks of the stages follow each other, and such
// pipelines start every `pitch` devices. d_in = 1 keeps a pipeline together, d_in = d all replicas of a stage
// (Megatron's default). A stride over ranks that reaches beyond a block becomes two strides over devices, one inside
// and one of pitches.
//
// Split and devices are asked per stage, though today's strategies have one split for all.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/stride.h"
#include "groups/grid.h"
#include "plan/plan.h"

namespace nest::groups {

// Whom a device works for.
struct Place {
  std::int64_t stage = 0;
  std::int64_t replica = 0;  // r_out · d_in + r_in
  std::int64_t inner = 0;    // among the tp·cp devices of one stage of one replica
  bool operator==(const Place&) const = default;
};

// Which weights: experts' ones have groups of their own.
enum class Weights : std::uint8_t { dense, expert };
constexpr Kind replicas_of(Weights weights) { return weights == Weights::dense ? Kind::dense : Kind::expert_data; }

// Who shares the state of one stage: `shard` are the groups that it is divided over, `replicate` those that hold the
// same part.
struct StateGroups {
  GroupSpec shard;
  GroupSpec replicate;
};

// Over how many ranks ZeRO divides dense and expert state.
struct ZeroDegrees {
  std::int64_t dense = 1;
  std::int64_t expert = 1;
  std::int64_t of(Weights weights) const { return weights == Weights::dense ? dense : expert; }
};

// A value without heap memory; the strategy must be sound (d_in divides dp, etp·ep divides A).
class RankGroups {
 public:
  explicit RankGroups(const Strategy& strategy);

  const Grid& grid() const { return grid_; }
  std::int64_t stages() const { return grid_.stages(); }
  std::int64_t size(Kind kind) const { return grid_.size(kind); }

  const Split& split_of(std::int64_t stage) const;
  std::int64_t device_of(const StageRank& place) const;
  std::int64_t device_of(const Place& place) const;
  std::int64_t device_of(RankOrder order, std::int64_t rank) const { return device_of(grid_.place_of(order, rank)); }
  // Nothing for idle devices.
  std::optional<Place> place_of(std::int64_t device) const;
  // Devices in use are numbered without the idle ones between them.
  std::int64_t number_of(std::int64_t device) const;
  std::int64_t device_number(std::int64_t number) const;

  std::int64_t replica_devices() const { return inner_; }  // tp·cp
  std::int64_t block() const { return block_; }            // A
  std::int64_t pitch() const { return pitch_; }
  std::int64_t pipelines() const { return grid_.ranks_per_stage() / block_; }  // d_out
  Stride stage_axis() const { return {block_, stages()}; }

  // The groups of a stage as devices: the first one, and as siblings the others of the stage. For pipelines, those that
  // start on the stage.
  GroupSpec groups(Kind kind, std::int64_t stage) const;

  // The context ranks that trade heads, which are neighbours, and those of one ring (Split::context_heads).
  struct ContextParts {
    GroupSpec heads, ring;
  };
  ContextParts context_parts(std::int64_t stage) const;

  // The same for state that is divided over `degree` ranks, the innermost ones. The degree is one that can_shard, or
  // one of zero_degrees.
  StateGroups state(Weights weights, std::int64_t stage, std::int64_t degree) const;
  bool can_shard(std::int64_t degree) const;
  ZeroDegrees zero_degrees(std::int64_t degree) const;

 private:
  std::vector<Stride> on_devices(const std::vector<Stride>& ranks) const;

  Grid grid_;
  Split split_;
  std::int64_t inner_;  // tp·cp
  std::int64_t block_;  // A
  std::int64_t pitch_;
};

// Ranks that hold the same dense (expert) parameters of a stage: sizes of its groups, without a grid.
inline std::int64_t dense_replicas(const Strategy& strategy) { return strategy.dp * strategy.split.cp; }
inline std::int64_t expert_replicas(const Strategy& strategy) { return strategy.edp(); }

// Degree 0: over all replicas. A smaller one makes as many groups of the experts' replicas as of the dense ones,
// rounded up to what divides their ranks evenly.
ZeroDegrees zero_degrees(const Strategy& strategy, std::int64_t degree);

// Whether dense state can be divided over the innermost `degree` of its replicas; 0: all.
bool can_shard(const Strategy& strategy, std::int64_t degree);

}  // namespace nest::groups
