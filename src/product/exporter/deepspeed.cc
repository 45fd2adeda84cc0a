#include "exporter/deepspeed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cost/group_time.h"
#include "exporter/framework.h"
#include "exporter/gpt.h"

namespace nest {
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
  const bool overlaps = task.job.stack.data_overlap != DataOverlap::none;
  zero["overlap_comm"] = overlaps;
  zero["contiguous_gradients"] = true;
  zero["reduce_scatter"] = !task.job.stack.all_reduce_zero1;
  if (sharding.zero == 3 && sharding.degree < dense_replicas(task.strategy)) {
    zero["mics_shard_size"] = sharding.degree;
    zero["mics_hierarchical_params_gather"] = false;
  }
  return zero;
}

void add_precision(OrderedJson& config, ComputePrecision precision) {
  if (precision == ComputePrecision::bf16) config["bf16"] = {{"enabled", true}};
  if (precision == ComputePrecision::fp16) {
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
  const Strategy& s = task.strategy;
  const Sharding sharding = sharding_of(s, task.stages.front());
  OrderedJson& config = exported.config;
  config["train_batch_size"] = task.job.run.global_batch;
  config["train_micro_batch_size_per_gpu"] = s.micro_batch;
  config["gradient_accumulation_steps"] = micro_batches(s, task.job.run.global_batch);
  config["gradient_clipping"] = 1.0;
  add_precision(config, task.job.precision);
  config["zero_optimization"] = zero_section(task, sharding);
  const std::vector<StageBlocks> blocks = stage_blocks(task.job.model, task.stages);
  bool full = false;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    full = full || (blocks[i].blocks > 0 && task.stages[i].recompute == Recompute::full);
  }
  s.pp > 1 ? add_pipeline(task, sharding.zero, full, exported) : add_flat(task, full, exported);
  return exported;
}

}  // namespace nest
