#include "exporter/deepspeed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cost/group_time.h"
#include "exporter/framework_rules.h"
#include "exporter/gpt.h"

namespace nest::exporter {
namespace {

using OrderedJson = nlohmann::ordered_json;

// DeepSpeed's name for the family's way to divide layers; empty where it has none.
std::string tensor_preset(const std::string& family) {
  struct Known {
    const char* family;
    const char* preset;
  };
  static constexpr std::array kKnown = {Known{"llama", "llama"},     Known{"bloom", "bloom"},
                                        Known{"mixtral", "mixtral"}, Known{"deepseek_v2", "deepseek_v2"},
                                        Known{"qwen2", "qwen2"},     Known{"phi3", "phi3"}};
  const auto found =
      std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) { return family == known.family; });
  return found == kKnown.end() ? "" : found->preset;
}

OrderedJson zero_section(const ExportTask& task, const Sharding& sharding) {
  OrderedJson zero = {{"stage", sharding.zero}};
  if (sharding.zero == 0) return zero;
  const bool overlaps = task.job.stack.data_overlap != cost::DataOverlap::none;
  zero["overlap_comm"] = overlaps;
  zero["contiguous_gradients"] = true;
  zero["reduce_scatter"] = !task.job.stack.all_reduce_zero1;
  if (sharding.zero == 3 && sharding.degree < groups::dense_replicas(task.strategy)) {
    zero["mics_shard_size"] = sharding.degree;
    zero["mics_hierarchical_params_gather"] = false;
  }
  return zero;
}

void add_precision(OrderedJson& config, Precision precision) {
  if (precision == Precision::bf16) config["bf16"] = {{"enabled", true}};
  if (precision == Precision::fp16) {
    config["fp16"] = {{"enabled", true}, {"loss_scale", 0}, {"initial_scale_power", 16}};
  }
}

void add_pipeline(const ExportTask& task, int zero, bool full, DeepspeedExport& exported) {
  const Strategy& s = task.strategy;
  exported.config["pipeline"] = {{"stages", s.pp},
                                 {"activation_checkpoint_interval", full ? 1 : 0},
                                 {"pipe_partitioned", true},
                                 {"grad_partitioned", true}};
  exported.notes.push_back(fmt::format(
      "the pipeline is built in Python: PipelineModule(layers, num_stages={}, partition_method=\"type:transformer\", "
      "activation_checkpoint_interval={})",
      s.pp, full ? 1 : 0));
  exported.arguments = {{"--deepspeed", {}},
                        {"--zero-stage", {fmt::format("{}", zero)}},
                        {"--tensor-model-parallel-size", {fmt::format("{}", s.split.tp)}},
                        {"--pipeline-model-parallel-size", {fmt::format("{}", s.pp)}},
                        {"--micro-batch-size", {fmt::format("{}", s.micro_batch)}},
                        {"--global-batch-size", {fmt::format("{}", task.job.run.global_batch)}}};
}

void add_flat(const ExportTask& task, bool full, DeepspeedExport& exported) {
  const Split& split = task.strategy.split;
  OrderedJson& config = exported.config;
  if (split.tp > 1) {
    config["tensor_parallel"] = {{"autotp_size", split.tp}};
    const std::string preset = tensor_preset(task.job.model.architecture.family);
    if (!preset.empty()) config["tensor_parallel"]["preset_model"] = preset;
  }
  if (split.ep > 1) {
    config["expert_parallel"] = {{"enabled", true}, {"autoep_size", split.ep}};
  }
  if (full) {
    config["activation_checkpointing"] = {{"partition_activations", false}, {"cpu_checkpointing", false}};
    exported.notes.emplace_back("recomputation is switched on in the model: model.gradient_checkpointing_enable()");
  }
}

}  // namespace

DeepspeedExport export_deepspeed(const ExportTask& task) {
  DeepspeedExport exported;
  if (task.job.run.mtp_layers > 0) {
    exported.notes.emplace_back(
        "layers that predict further tokens are part of the model's Python; the plan counts them");
  }
  const Strategy& s = task.strategy;
  const Sharding sharding = sharding_of(s, task.stages.front());
  OrderedJson& config = exported.config;
  config["train_batch_size"] = task.job.run.global_batch;
  config["train_micro_batch_size_per_gpu"] = s.micro_batch;
  config["gradient_accumulation_steps"] = micro_batches(s, task.job.run.global_batch);
  config["gradient_clipping"] = 1.0;
  add_precision(config, task.job.run.precision);
  config["zero_optimization"] = zero_section(task, sharding);
  const std::vector<StageBlocks> blocks = stage_blocks(task.job.model, task.stages);
  bool full = false;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    full = full || (blocks[i].blocks > 0 && task.stages[i].recompute.every_layer());
  }
  s.pp > 1 ? add_pipeline(task, sharding.zero, full, exported) : add_flat(task, full, exported);
  return exported;
}

void refuse_deepspeed(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found) {
  const Split& split = strategy.split;
  const Sharding sharding = sharding_of(strategy, like);
  if (sharding.zero >= 2 && strategy.pp > 1) {
    found.push_back(fmt::format("cannot combine ZeRO {} with a pipeline (pp={}); its pipelines take ZeRO 0 or 1",
                                sharding.zero, strategy.pp));
  }
  if (strategy.virtual_stages > 1) found.emplace_back("cannot interleave; its pipelines run plain 1F1B");
  refuse_hybrid(sharding, found);
  refuse_split_gradients(strategy, found);
  refuse_host_activations(strategy, found);
  if (strategy.schedule == Schedule::gpipe) found.emplace_back("cannot run GPipe's schedule; it runs 1F1B");
  if (split.sp) found.emplace_back("cannot split norms along the sequence (sp)");
  if (split.cp > 1) found.push_back(fmt::format("cannot pass keys and values around a ring (cp={})", split.cp));
  if (split.ep > 1 && (strategy.pp > 1 || split.tp > 1)) {
    found.push_back(
        fmt::format("cannot spread experts (ep={}) inside a pipeline or with tensor parallelism", split.ep));
  }
  if (has_experts(job.model) && split.expert_tp() > split.tp) {
    found.push_back(fmt::format("cannot divide an expert over ranks (etp={})", split.expert_tp()));
  }
  if (split.ep > 1 && sharding.zero > 0 && sharding.degree < groups::dense_replicas(strategy)) {
    found.emplace_back("cannot shard over part of the ranks in a model with spread experts");
  } else if (sharding.zero > 0 && sharding.degree < groups::dense_replicas(strategy) &&
             (sharding.zero < 3 || split.tp > 1)) {
    found.push_back(fmt::format("cannot shard ZeRO {} over {} of {} ranks", sharding.zero, sharding.degree,
                                groups::dense_replicas(strategy)));
  }
  if (like.recompute.kind == Recompute::selective)
    found.emplace_back("cannot recompute selectively; it checkpoints whole layers");
  refuse_megatron_recomputation(like, found);
}

void refuse_deepspeed_cuts(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                           Obstacles& found) {
  if (strategy.pp > 1 && !is_even_cut(job.model, stages, 1)) {
    found.emplace_back("cannot cut a pipeline where it is told; it balances blocks itself");
  }
}

// Its pipelines balance blocks themselves.
void restrict_to_deepspeed(const cost::Job& job, plan::PlanLimits& limits) {
  plan::set_limit(limits, "cp=1");
  plan::set_limit(limits, "schedule=1f1b");
  limits.sp[1] = false;
  limits.zero_outer[1] = false;
  limits.more_offloads = false;
  limits.even_cuts = true;
  admit_common_recomputation(false, limits);
  if (has_experts(job.model)) plan::set_limit(limits, "etp=1");
}

}  // namespace nest::exporter
