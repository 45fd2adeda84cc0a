// The planning problem, in integers. Nothing here knows of models, files or clusters: an adapter fills it in.
//
// A chain of n layers is cut into `stages` contiguous intervals; every stage runs on `a` devices per replica; the
// pipeline is replicated `replicas` times. A KEY fixes everything except where the chain is cut and what each stage
// does about memory; a PLAN is a key, its cuts, and one option (recompute, ZeRO stage, sharding group) per stage. For a
// key with micro-batch size b, batch B and m = ceil(B / (b * replicas * expert)) micro-batches per replica, stage s has
// a time t_s per micro-batch and a time y_s per iteration (exposed gradient exchange and optimizer), and the iteration
// takes
//
//     T = m * tau + floor((S - tau) / v) + Y,    tau = max t_s,  S = sum t_s,  Y = max y_s
//
// with v chunks per stage (1 unless interleaved). stage_cost.h has t_s, y_s and the memory of a stage. The search needs
// of them only that
//   (P1) quantities of an interval are sums or maxima of layer quantities, all >= 0;
//   (P2) t and y do not fall when a line's alpha or beta grows, and do not grow with a sharding degree; memory does not
//        grow with a degree;
//   (P3) memory does not fall when the interval or the number of micro-batches in flight grows.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "search/network.h"
#include "search/numbers.h"

namespace nest::search {

// What one device of a stage does for one layer, for one split and one micro-batch size.
struct LayerCost {
  std::int64_t time_ps = 0;       // forward + backward of one micro-batch, collectives inside the a devices included
  std::int64_t selective_ps = 0;  // additional time under selective recomputation
  std::int64_t full_ps = 0;       // additional time under full recomputation
  std::int64_t hide_ps = 0;       // part of time_ps behind which gradient or weight traffic of one micro-batch can hide
  std::array<std::int64_t, 3> kept_bytes{};     // kept per micro-batch in flight: no, selective, full recomputation
  std::array<std::int64_t, 3> working_bytes{};  // needed while the layer runs (the stage takes the largest layer)
  std::int64_t gather_bytes = 0;                // needed besides under ZeRO stage 3 (gathered weights; largest layer)
  std::int64_t dense_parameters = 0;            // on one device, before ZeRO
  std::int64_t expert_parameters = 0;
};

// Prices for one split and micro-batch size.
struct LayerTable {
  std::vector<LayerCost> layers;        // by layer type
  std::vector<std::int64_t> cut_bytes;  // by cut kind: what one device sends and receives across this boundary per
                                        // micro-batch (activations forward, gradients backward), every tensor counted
  std::int64_t wrap_bytes = 0;          // the same between the last stage and the first, for interleaved schedules
};

// The layers in order. Layers of one type have equal LayerCost under every split; boundaries of one kind have equal
// bytes.
struct Chain {
  std::vector<int> layer_type;  // n entries, 0 .. types - 1
  std::vector<int> cut_kind;    // n + 1 entries; [i] is the boundary before layer i; [0] and [n] are never cut

  std::int64_t size() const { return static_cast<std::int64_t>(layer_type.size()); }
};

// Sums that allow (split, micro-batch) pairs to be discarded before they are priced. Lower bounds suffice.
struct WorkBound {
  std::int64_t total_time_ps = 0;    // sum of LayerCost::time_ps over the chain
  std::int64_t largest_time_ps = 0;  // the largest of them
};

// The cost model. price() is called at most once per pair, possibly from several threads at once for different pairs.
class Pricer {
 public:
  virtual ~Pricer() = default;
  virtual LayerTable price(int split, int micro_batch) const = 0;

  // False: every pair is priced before the search starts and bound() is not called.
  virtual bool has_bounds() const { return false; }
  virtual WorkBound bound(int /*split*/, int /*micro_batch*/) const { return {}; }
};

// Training state and its traffic, per parameter.
struct StateRecipe {
  std::int64_t weight_bytes = 2, gradient_bytes = 4, optimizer_bytes = 12;  // in memory
  std::int64_t gradient_traffic_bytes = 4, weight_traffic_bytes = 2;        // through the network
  std::int64_t step_ps_per_mi_sharded = 0;  // optimizer time per 2^20 parameters of the shard this device updates
  std::int64_t step_ps_per_mi_local = 0;    // and per 2^20 parameters it holds
  std::int64_t exposed_1024ths = 0;         // at least this part of any exchange is exposed, however much could hide it
};

enum class ScheduleKind : std::uint8_t { one_f_one_b, interleaved, gpipe };

// `chunks` is v: 1 except for interleaved schedules, where it is > 1, stages >= 2 and every stage holds >= v layers. An
// interleaved stage is priced as ONE interval of which each chunk keeps 1/v of the activations. That is exact when the
// interior of the chain is one run of identical layers; an adapter with another chain offers no interleaved schedule,
// or folds the chain first.
struct Schedule {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  std::int64_t chunks = 1;
  bool operator==(const Schedule&) const = default;
};

// Values a user admits for one dimension: those in [low, high], and, if `only` is not empty, among those listed.
struct Limit {
  std::int64_t low = 1;
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> only;

  bool admits(std::int64_t value) const {
    if (value < low || value > high) return false;
    if (only.empty()) return true;
    for (std::int64_t allowed : only) {
      if (allowed == value) return true;
    }
    return false;
  }
};

// What a stage may do about memory; index by recompute mode, ZeRO stage, sharding group of SyncClass.
struct AllowedOptions {
  std::array<bool, 3> recompute{true, true, true};
  std::array<bool, 4> zero{true, true, true, true};
  std::array<bool, 2> group{true, true};
};

// time: the smallest T (with `devices` lowered: the smallest T under a device limit).
// device_time: the smallest T times devices occupied (from the first to the last device of the placement).
enum class Objective : std::uint8_t { time, device_time };

struct Problem {
  Chain chain;
  std::vector<SplitChoice> splits;
  std::vector<std::int64_t> micro_batches;
  std::vector<Schedule> schedules{Schedule{}};
  std::int64_t global_batch = 1;  // B, in the unit of micro_batches
  std::int64_t devices = 1;       // N
  std::int64_t memory_bytes = 0;  // of one device, after every fixed reserve
  StateRecipe state;
  AllowedOptions options;
  Limit stages, replicas, inner_replicas;
  bool padding = true;               // pitches may be rounded up to the network's alignments
  bool even_batch = false;           // demand that b * replicas * expert divides B
  bool interleave_multiple = false;  // demand that stages divides m in interleaved schedules
  Objective objective = Objective::time;
  const Network* network = nullptr;
  const Pricer* pricer = nullptr;
};

// Throws InputError when the problem contradicts itself (sizes, ranges, missing parts).
void validate(const Problem& problem);

}  // namespace nest::search
