#include "exporter/framework_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost/group_time.h"
#include "exporter/gpt.h"
#include "exporter/rank_map.h"
#include "schedule/rules.h"

namespace nest::exporter {
namespace {

bool is_megatron_memory(cost::MemoryModel memory) { return memory == cost::MemoryModel::megatron; }
bool is_fsdp_memory(cost::MemoryModel memory) { return memory == cost::MemoryModel::fsdp; }
bool is_deepspeed_memory(cost::MemoryModel memory) {
  return memory == cost::MemoryModel::megatron_deepspeed || memory == cost::MemoryModel::plain;
}

bool any_precision(Precision /*precision*/) { return true; }
bool no_narrow_precision(Precision precision) { return precision != Precision::fp8 && precision != Precision::fp4; }
bool torchtitan_precision(Precision precision) { return precision != Precision::fp4 && precision != Precision::fp16; }

// DeepSpeed's own buffers (live parameters, buckets) are not counted: its memory is no reason to refuse a plan.
// clang-format off
constexpr std::array<FrameworkRules, launch::kFrameworkNames.size()> kRules = {{
    {launch::Framework::megatron, "Megatron-LM", "Megatron-Core 0.19", "megatron-core", true, true, false,
     is_megatron_memory, any_precision, refuse_megatron, refuse_chunks, restrict_megatron},
    {launch::Framework::nemo, "NeMo and Megatron-Bridge", "Megatron-Core 0.19", "megatron-core", true, true, false,
     is_megatron_memory, any_precision, refuse_megatron, refuse_chunks, restrict_megatron},
    {launch::Framework::deepspeed, "DeepSpeed and Megatron-DeepSpeed", "DeepSpeed 0.19", "hf-deepspeed", false, false, true,
     is_deepspeed_memory, no_narrow_precision, refuse_deepspeed, refuse_deepspeed_cuts, restrict_to_deepspeed},
    {launch::Framework::torchtitan, "torchtitan", "torchtitan 0.2.2", "fsdp2", true, false, false,
     is_fsdp_memory, torchtitan_precision, refuse_torchtitan, refuse_torchtitan_chunks, restrict_to_torchtitan},
    {launch::Framework::torchtitan_main, "torchtitan's main", "torchtitan of August 2026", "fsdp2", true, false, false,
     is_fsdp_memory, torchtitan_precision, refuse_titan_main, refuse_torchtitan_chunks, restrict_to_titan_main},
    {launch::Framework::fsdp, "Hugging Face accelerate (FSDP2)", "accelerate 1.15", "hf-fsdp", true, false, false,
     is_fsdp_memory, no_narrow_precision, refuse_accelerate, refuse_chunks, restrict_to_accelerate},
}};
// clang-format on

constexpr bool rules_in_order() {
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (static_cast<std::size_t>(kRules[i].framework) != i) return false;
  }
  return true;
}
static_assert(rules_in_order());

}  // namespace

const std::array<FrameworkRules, launch::kFrameworkNames.size()>& framework_rules() { return kRules; }

const FrameworkRules& rules_of(launch::Framework framework) { return kRules[static_cast<std::size_t>(framework)]; }

Sharding sharding_of(const Strategy& strategy, const StagePlan& stage) {
  const std::int64_t all = groups::dense_replicas(strategy);
  const std::int64_t degree = stage.zero_degree == 0 ? all : stage.zero_degree;
  if (stage.zero == 0 || degree <= 1) return {0, 1};
  return {stage.zero, degree, stage.zero_outer};
}

void refuse_megatron_recomputation(const StagePlan& like, Obstacles& found) {
  const Recompute kind = like.recompute.kind;
  if (kind != Recompute::modules && kind != Recompute::block && kind != Recompute::uniform) return;
  found.push_back(fmt::format("cannot be told to recompute {}", to_string(like.recompute)));
}

void admit_common_recomputation(bool selective, plan::PlanLimits& limits) {
  for (const Recompute kind : {Recompute::modules, Recompute::block, Recompute::uniform}) {
    limits.recompute[at(kind)] = false;
  }
  if (!selective) limits.recompute[at(Recompute::selective)] = false;
}

void refuse_hybrid(const Sharding& sharding, Obstacles& found) {
  if (sharding.outer)
    found.emplace_back("cannot shard the optimizer's state over more ranks than weights (zero_outer)");
}

void refuse_split_gradients(const Strategy& strategy, Obstacles& found) {
  if (strategy.pp == 1 || !schedule::rule_of(strategy.schedule).is_split()) return;
  found.push_back(fmt::format("cannot run schedule {}: it computes both gradients of a layer in one",
                              to_string(strategy.schedule)));
}

void refuse_host_activations(const Strategy& strategy, Obstacles& found) {
  const OffloadSet modules = strategy.split.offload;
  if (modules == 0) return;
  found.push_back(fmt::format("cannot keep what modules save on the host (offload={})", offload_text(modules)));
}

void refuse_chunks(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                   Obstacles& found) {
  if (strategy.virtual_stages == 1 || plan::lists_chunks(stages)) return;
  const bool is_v = schedule::rule_of(strategy.schedule).is_v();
  const std::vector<StageBlocks> chunks =
      is_v ? v_blocks(job.model, stages) : chunk_blocks(job.model, stages, strategy.virtual_stages);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].blocks > 0 || chunks[i].embedding || chunks[i].mtp || chunks[i].head) continue;
    found.push_back(fmt::format("cannot interleave stage {}: it has too few layers for its {} chunks",
                                i % stages.size(), strategy.virtual_stages));
    return;
  }
  if (is_v) {
    if (!keeps_priced_layers(job.model, stages, chunks, true)) {
      found.emplace_back("cannot fold layers of several kinds: the first stage of a V holds both ends of the model");
    }
  } else if (!keeps_priced_layers(job.model, stages, chunks)) {
    found.emplace_back("cannot interleave layers of several kinds that are cut in the middle of their pattern");
  }
}

void refuse_rounds(const cost::Job& job, const Strategy& strategy, Obstacles& found) {
  const std::int64_t m = micro_batches(strategy, job.run.global_batch);
  if (strategy.schedule == Schedule::interleaved && strategy.group == 0 && m % strategy.pp != 0) {
    found.push_back(fmt::format("cannot interleave {} micro-batches on {} stages: no multiple", m, strategy.pp));
  }
}

}  // namespace nest::exporter
