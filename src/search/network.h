// What the search must know of a network, and the answer for networks that are trees of switches.
//
// Devices are numbered in hierarchical order. Stage s of replica r = (r_out, r_in) of a key occupies the devices
//     r_out * pitch + s * D + r_in * a + q,   0 <= q < a,   D = inner_replicas * a
// so a pipeline of D-device blocks is contiguous and pipelines repeat every `pitch` devices. Inside a block of a
// devices the index q runs through tensor, context and expert ranks, tensor ranks innermost.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "search/numbers.h"

namespace nest::search {

// How one stage of one replica is divided: a = tensor * context * expert devices. One micro-batch feeds `expert` times
// the micro-batch size (expert ranks are data-parallel for the dense part). `tag` is the caller's; the search ignores
// it.
struct SplitChoice {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  int tag = 0;

  std::int64_t devices() const { return tensor * context * expert; }
};

// A group over which optimizer state, gradients or weights are sharded. Dense parameters are replicated over
// replicas * context * expert devices, expert parameters over replicas * context.
//   shard      one reduce-scatter or one all-gather inside the sharding group, as a function of the unsharded bytes
//   replicate  half an all-reduce between the sharding groups, as a function of the same unsharded bytes
//   degree     members of the sharding group, >= 1
struct ShardGroup {
  Line dense_shard, dense_replicate, expert_shard, expert_replicate;
  std::int64_t dense_degree = 1;
  std::int64_t expert_degree = 1;
  bool operator==(const ShardGroup&) const = default;
};

// [0]: sharded over all replicas (replicate lines are zero). [1]: sharded inside the innermost unit, replicated
// between.
struct SyncClass {
  std::array<ShardGroup, 2> group;
  bool operator==(const SyncClass&) const = default;
};

struct Placement {
  SplitChoice split;
  std::int64_t stages = 1;
  std::int64_t replicas = 1;
  std::int64_t inner_replicas = 1;  // divides replicas
  std::int64_t pitch = 1;           // devices from one pipeline to the next
};

// Prices of one key's placement. hop[s] is the time that stage s AND stage s + 1 each spend per crossing of their
// boundary, as a function of the cut bytes, for the worst replica; `wrap` the same for last stage -> first stage.
struct PlacementClass {
  std::vector<Line> hop;  // stages - 1
  Line wrap;
  SyncClass sync;
};

// A set of placements: replicas in [replicas_low, replicas_high], inner replicas in [inner_low, inner_high], the given
// pitch or (0) any.
struct PlacementBox {
  SplitChoice split;
  std::int64_t stages = 1;
  std::int64_t replicas_low = 1, replicas_high = 1;
  std::int64_t inner_low = 1, inner_high = 1;
  std::int64_t pitch = 0;
};

// At least `boundaries` of the stages - 1 boundaries cost at least `line`.
struct HopFloor {
  std::int64_t boundaries = 0;
  Line line;
};

// Component-wise best case of all placements of a box: every alpha and beta no larger than in any of them, every degree
// no smaller. The floors are alternatives: each of them holds.
struct BoxClass {
  Line hop, wrap;
  SyncClass sync;
  std::vector<HopFloor> floors;
};

// Contract of an implementation, on which the exactness of the search rests:
//   - place() is a pure function; both functions may be called from several threads at once;
//   - optimistic(box) is component-wise no worse than place() of every member of the box;
//   - with everything else fixed, the hop lines do not fall when replicas grow.
class Network {
 public:
  virtual ~Network() = default;

  // Pitches may be rounded up to a multiple of one of these (each > 1); placements with the bare pitch always exist.
  virtual const std::vector<std::int64_t>& alignments() const = 0;

  virtual PlacementClass place(const Placement& placement) const = 0;
  virtual BoxClass optimistic(const PlacementBox& box) const = 0;
};

// Link of level l: `unit` devices share one uplink of `bytes_per_s` into a switch of level l. unit = 1 at the innermost
// level. The outermost switch holds everything.
struct NetworkLevel {
  std::int64_t unit = 1;
  double bytes_per_s = 0;
  std::int64_t latency_ps = 0;
};

// A tree of switches.
//
// Hop: each device sends to its counterpart D devices further on. A link of level l carries as many flows at once as
// leave the fullest unit; the slowest level decides, the highest level crossed gives the latency. Collective of n
// members, P_l of which share a level-l unit (P_0 = 1 <= P_1 <= ... <= P_L = n), hierarchical:
//     half the all-reduce takes  sum_l (1/P_l - 1/P_{l+1}) * unit_l / bytes_per_s_l  per byte
// (all devices of a unit talk at the same time) and ceil(log2(P_{l+1} / P_l)) latencies of each level. P_l is the
// number of members inside the first min(D, unit_l) devices of a block, times the pipelines that fit in one unit.
class LevelNetwork : public Network {
 public:
  // At most 8 levels, units increase from 1, rates are positive. Throws InputError.
  explicit LevelNetwork(std::vector<NetworkLevel> levels);

  const std::vector<std::int64_t>& alignments() const override { return alignments_; }
  PlacementClass place(const Placement& placement) const override;
  BoxClass optimistic(const PlacementBox& box) const override;

  // Most flows leaving one unit when the device block [source, source + count) sends to [target, target + count).
  static std::int64_t flows(std::int64_t source, std::int64_t target, std::int64_t count, std::int64_t unit);

 private:
  enum class Kind { dense, expert };
  static constexpr std::size_t kMostLevels = 8;
  struct Members {
    std::array<double, kMostLevels> low{}, high{};  // [l - 1] for levels 1 .. L-1: bounds of P_l
    std::int64_t least = 1;                         // smallest n
    std::int64_t most = 1;                          // largest n
  };

  std::int64_t in_block(Kind kind, const SplitChoice& split, std::int64_t devices) const;
  std::int64_t in_unit(Kind kind, const Placement& placement, std::size_t level) const;
  Members bound_members(Kind kind, const PlacementBox& box) const;
  Line collective(Kind kind, const Placement& placement, std::size_t from, std::size_t to) const;
  Line best_collective(const Members& members, std::size_t from, std::size_t to) const;
  Line worst_hop(const Placement& placement, std::int64_t from_stage, std::int64_t to_stage) const;
  BoxClass best_hops(const PlacementBox& box) const;

  std::vector<NetworkLevel> levels_;
  std::vector<double> ps_per_mib_;  // of one uplink used by one flow
  std::vector<std::int64_t> alignments_;
};

}  // namespace nest::search
