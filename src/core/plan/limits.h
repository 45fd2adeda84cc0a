// Which plans a search may consider: what a person or a framework admits of every dimension.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace nest::plan {

// Values of one dimension: those in [low, high] and, if `only` is not empty, among those listed.
struct Limit {
  std::int64_t low = 1;
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> only;

  bool admits(std::int64_t value) const {
    if (value < low || value > high) return false;
    return only.empty() || std::find(only.begin(), only.end(), value) != only.end();
  }
  bool is_free() const { return low <= 1 && high == std::numeric_limits<std::int64_t>::max() && only.empty(); }
};

// What a framework runs of the plans inside limits, where no list of values can say it: asked of every strategy, and of
// every strategy with the treatment of its stages (zero, zero_degree, zero_outer and recompute of `like`). A search asks
// from several threads.
struct Runnable {
  std::function<bool(const Strategy& strategy)> places;
  std::function<bool(const Strategy& strategy, const StagePlan& like)> treats;
};

struct PlanLimits {
  Limit tp, cp, cp_inner, ep, etp, pp, dp, dp_inner, vpp, micro_batch;
  std::array<bool, 2> sp{true, true};          // without, with
  std::array<bool, 2> defer_head{true, true};  // at once, in the drain
  // By Recompute, as far as the stack does so; of modules, block and uniform these only, if there are any here.
  std::array<bool, kRecomputeWords.size()> recompute{true, true, true, true, true, true};
  std::vector<Recomputation> recompute_only;
  // Without, with any set of modules that is offered (search/choices.h); besides, those that are named here.
  std::array<bool, 2> offload{true, false};
  std::vector<OffloadSet> offload_only;
  bool more_offloads = true;  // any may be tried where nothing fits without; until somebody names what
  std::array<bool, 4> zero{true, true, true, true};
  std::array<bool, 2> zero_outer{true, true};  // optimizer state with the rest, over all replicas; if the stack does so
  // By ContextExchange. Where all are admitted, a search keeps to those that the stack names.
  std::array<bool, kContextWords.size()> cp_comm{true, true, true, true};
  // By Schedule: 1F1B, interleaved. GPipe is never faster than 1F1B and never smaller: only where asked for; the others
  // where somebody asks or the stack runs them.
  std::array<bool, kScheduleWords.size()> schedule{true, true, false};
  bool more_schedules = true;      // besides those above, those that the stack runs; until somebody names schedules
  bool pitch = true;               // pipelines may start on node or rack boundaries, leaving devices idle between
  bool shard_in_node = true;       // sharding inside a node and replicating between nodes is an option
  bool uniform = false;            // all stages treat recomputation and sharding alike
  bool whole_blocks_only = false;  // dp_inner is dp, or 1 where etp·ep = tp·cp: the rank orders that frameworks know
  bool replicas_together = false;  // dp_inner = dp: Megatron's default rank order
  bool uneven_batch = true;        // the batch need not be a multiple of micro-batch x data-parallel ranks
  bool any_rounds = false;         // interleaved schedules whose micro-batches are no multiple of the stages
  bool all_devices = false;        // none stays idle
  bool even_cuts = false;          // as many layers in every chunk of every stage
  std::shared_ptr<const Runnable> runs;  // null: everything. Where there is one, all stages are treated alike (uniform)

  bool admits(ContextExchange kind) const { return cp_comm[static_cast<std::size_t>(kind)]; }
  bool admits(Schedule kind) const { return schedule[static_cast<std::size_t>(kind)]; }
  bool admits(const Recomputation& recomputation) const;
  void refuse(Schedule kind) { schedule[static_cast<std::size_t>(kind)] = false; }
};

// Applies "tp=8", "pp=1..16", "zero=0,1", "recompute=none,moe_act,block", "offload=core_attn+attn_proj", "sp=1", "schedule=1f1b", "pitch=0", …: a dimension
// (dimensions.h) or one of the switches above. Throws InputError that names `source`, the key, the value seen and what
// is allowed.
void set_limit(PlanLimits& limits, std::string_view text, std::string_view source = "--set");

// What both admit: `limits` loses what `by` does not admit. Of what a framework runs only one may speak.
void narrow(PlanLimits& limits, const PlanLimits& by);

// Whether some dimension has no value left; without tensor parallelism sp needs none.
bool is_empty(const PlanLimits& limits);

// What set_limit() takes, sorted.
std::vector<std::string> limit_names();

// What Megatron-Core can be told on its command line: one setting for all stages, its own rank orders.
void restrict_to_megatron(PlanLimits& limits);

}  // namespace nest::plan
