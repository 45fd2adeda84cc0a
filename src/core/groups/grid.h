// Which ranks form which group.
//
// The N = TP·CP·DP ranks of a pipeline stage are numbered ρ = 0 … N-1 and read twice, each time as a mixed-radix number
// whose innermost digit comes first:
//
//     attention    ρ = t + TP (c + CP d)          0 <= t < TP,  0 <= c < CP, 0 <= d < DP
//     experts      ρ = x + ETP (e + EP f)         0 <= x < ETP, 0 <= e < EP, 0 <= f < EDP = N / (ETP·EP)
//
// The second reading holds for the routed experts, the first for everything else. A group varies some digits of one
// reading and keeps the others (and the stage):
//
//     kind            Megatron   reading     varies   size       carries
//     tensor          tp         attention   t        TP         activations of attention, shared experts, router
//     context         cp         attention   c        CP         keys and values
//     data            dp         attention   d        DP         nothing; ranks that read different sequences
//     dense           dp_cp      attention   c, d     DP·CP      gradients and shards of all weights but the experts'
//     expert          ep         experts     e        EP         routed tokens
//     tensor_expert   tp_ep      experts     x, e     ETP·EP     routed tokens, where the dispatcher gathers
//     expert_tensor   expt_tp    experts     x        ETP        activations inside experts
//     expert_data     expt_dp    experts     f        EDP        gradients and shards of the routed experts
//     pipeline        pp         —           stage    PP         activations between stages
//
// Where ETP·EP is no multiple of TP, the edge of an expert group cuts a tensor group; that is legal.
//
// Numbers of ranks in the whole world, as Megatron, DeepSpeed and torchtitan count them:
//     stages_last      rank = ρ + N p                                  tp-cp-ep-dp-pp, the default
//     replicas_last    rank = t + TP (c + CP (p + PP d))               tp-cp-ep-pp-dp, --use-tp-pp-dp-mapping
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/stride.h"
#include "plan/plan.h"

namespace nest::groups {

enum class Kind : std::uint8_t {
  tensor,
  context,
  data,
  dense,
  expert,
  tensor_expert,
  expert_tensor,
  expert_data,
  pipeline,
};
inline constexpr std::array kKinds = {Kind::tensor,        Kind::context,     Kind::data,
                                      Kind::dense,         Kind::expert,      Kind::tensor_expert,
                                      Kind::expert_tensor, Kind::expert_data, Kind::pipeline};

enum class RankOrder : std::uint8_t { stages_last, replicas_last };
const char* to_string(RankOrder order);  // "tp-cp-ep-dp-pp", as Megatron writes it

// Megatron's sizes: both grids over the same ranks.
struct GridSizes {
  std::int64_t tp = 1, cp = 1, dp = 1, pp = 1;
  std::int64_t etp = 1, ep = 1;
};
GridSizes sizes_of(const Strategy& strategy);

// Empty where frameworks accept these sizes and this order; else the reason, in one sentence. `instances`: groups of
// replicas among which optimizer state is divided each (Megatron's num_distributed_optimizer_instances).
std::string refuse(const GridSizes& sizes, RankOrder order, std::int64_t instances = 1);

// Where a rank stands in both readings, and the stage.
struct Coordinates {
  std::int64_t tensor = 0, context = 0, data = 0;
  std::int64_t expert_tensor = 0, expert = 0, expert_data = 0;
  std::int64_t stage = 0;
};

struct StageRank {
  std::int64_t stage = 0;
  std::int64_t rank = 0;  // ρ
  bool operator==(const StageRank&) const = default;
};

class Grid {
 public:
  // The sizes are those that refuse() accepts.
  explicit Grid(const GridSizes& sizes);
  // The same groups; d and f are two digits each, the ranks inside a team of replicas (Split::team) and the teams.
  explicit Grid(const Strategy& strategy);

  std::int64_t stages() const { return stages_; }
  std::int64_t ranks_per_stage() const { return ranks_; }
  std::int64_t world() const { return stages_ * ranks_; }

  std::int64_t size(Kind kind) const;
  std::int64_t count(Kind kind) const { return world() / size(kind); }

  // Over ρ, of the group of ρ = 0 and of the starts of the other groups of a stage; not for pipelines. Digits of one
  // axis stay strides of their own: sharding groups do not cut across teams.
  std::vector<Stride> members(Kind kind) const;
  std::vector<Stride> siblings(Kind kind) const;

  Coordinates coordinates(const StageRank& place) const;

  std::int64_t rank_of(RankOrder order, const StageRank& place) const;
  StageRank place_of(RankOrder order, std::int64_t rank) const;
  // The ranks that form a group of this kind with `rank`, itself included, rising.
  std::vector<std::int64_t> group_of(Kind kind, RankOrder order, std::int64_t rank) const;

 private:
  enum class Axis : std::uint8_t { tensor, context, data, expert_tensor, expert, expert_data };
  struct Digit {
    Axis axis = Axis::tensor;
    std::int64_t count = 1;
  };
  using Reading = std::array<Digit, 4>;  // innermost first; unused digits have one value
  static bool varies(Kind kind, Axis axis);
  const Reading& reading_of(Kind kind) const;

  std::int64_t stages_ = 1;
  std::int64_t ranks_ = 1;
  std::int64_t attention_ranks_ = 1;  // TP·CP
  Reading attention_{};
  Reading experts_{};
};

}  // namespace nest::groups
