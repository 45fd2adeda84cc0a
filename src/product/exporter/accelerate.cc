#include "exporter/accelerate.h"

#include <fmt/format.h>

#include "cost/group_time.h"
#include "exporter/framework_rules.h"
#include "exporter/gpt.h"

namespace nest::exporter {
namespace {

const char* boolean(bool value) { return value ? "true" : "false"; }

// FSDP2's mesh has replicas outside and shards inside (ParallelismConfig); one group of shards needs no mesh of its own.
std::string mesh_text(std::int64_t replicas, std::int64_t degree) {
  if (degree == replicas) return {};
  return fmt::format(
      "parallelism_config:\n"
      "  parallelism_config_dp_replicate_size: {}\n"
      "  parallelism_config_dp_shard_size: {}\n",
      replicas / degree, degree);
}

std::string machines_text(const ExportTask& task) {
  const std::int64_t processes = task.strategy.devices_used();
  const auto machines = task.launch == nullptr ? std::int64_t{1} : std::ssize(task.launch->hosts.hosts);
  std::string text = fmt::format("num_machines: {}\nnum_processes: {}\n", machines, processes);
  if (machines > 1) {
    text +=
        "machine_rank: 0  # of each host: accelerate launch --machine_rank\n"
        "main_process_ip: MAIN_HOST\n"
        "main_process_port: 29500\n"
        "rdzv_backend: static\n";
  }
  return text;
}

}  // namespace

AccelerateExport export_accelerate(const ExportTask& task) {
  const Strategy& s = task.strategy;
  const Sharding sharding = sharding_of(s, task.stages.front());
  const bool full = task.stages.front().recompute.every_layer(), sharded = sharding.zero > 0;
  const std::int64_t steps = micro_batches(s, task.job.run.global_batch);
  const bool half = task.job.run.precision == Precision::fp16;
  const char* const mixed = task.job.run.precision == Precision::fp32 ? "'no'" : half ? "fp16" : "bf16";
  AccelerateExport exported;
  exported.yaml = fmt::format("compute_environment: LOCAL_MACHINE\ndistributed_type: {}\nmixed_precision: {}\n",
                              sharded ? "FSDP" : "'NO'", mixed) +
                  machines_text(task);
  if (sharded) {
    exported.yaml += fmt::format(
        "fsdp_config:\n"
        "  fsdp_version: 2\n"
        "  fsdp_reshard_after_forward: {}\n"
        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
        "  fsdp_activation_checkpointing: {}\n"
        "  fsdp_cpu_ram_efficient_loading: true\n"
        "  fsdp_offload_params: false\n"
        "  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
        boolean(sharding.zero == 3), boolean(full));
    exported.yaml += mesh_text(groups::dense_replicas(s), sharding.degree);
  }
  exported.arguments = {{"--per_device_train_batch_size", {fmt::format("{}", s.micro_batch)}},
                        {"--gradient_accumulation_steps", {fmt::format("{}", steps)}}};
  if (task.job.run.precision != Precision::fp32) exported.arguments.push_back({half ? "--fp16" : "--bf16", {"true"}});
  // Of a sharded model accelerate's own checkpointing is used: Trainer's would gather weights once more (trainer.py).
  if (full && !sharded) exported.arguments.push_back({"--gradient_checkpointing", {"true"}});
  if (sharded && steps > 1) {
    exported.arguments.push_back(
        {"--accelerator_config", {R"({"gradient_accumulation_kwargs": {"sync_each_batch": true}})"}});
    exported.notes.emplace_back(
        "gradients are scattered after every micro-batch (sync_each_batch), as modelled; without it every rank "
        "keeps those of the whole model");
  }
  exported.notes.emplace_back(
      "attention is modelled as flash attention: from_pretrained(…, attn_implementation=\"flash_attention_2\")");
  return exported;
}

// What accelerate has besides (tensor and context parallelism of its ParallelismConfig) is not written.
void refuse_accelerate(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found) {
  const Split& split = strategy.split;
  const std::int64_t etp = has_experts(job.model) ? split.expert_tp() : 1;
  const Sharding sharding = sharding_of(strategy, like);
  if (strategy.pp > 1) found.push_back(fmt::format("cannot cut a model into stages (pp={})", strategy.pp));
  for (const auto& [name, size] :
       {std::pair{"tp", split.tp}, std::pair{"cp", split.cp}, std::pair{"ep", split.ep}, std::pair{"etp", etp}}) {
    if (size > 1)
      found.push_back(fmt::format("is written for sharded data parallelism alone, not with {}={}", name, size));
  }
  if (sharding.zero == 1)
    found.emplace_back("cannot shard the optimizer alone (ZeRO 1); it shards gradients too, or nothing");
  if (sharding.zero == 0 && groups::dense_replicas(strategy) > 1) {
    found.emplace_back("cannot replicate without sharding (ZeRO 0)");
  }
  refuse_hybrid(sharding, found);
  refuse_host_activations(strategy, found);
  if (like.recompute.kind == Recompute::selective)
    found.emplace_back("cannot recompute selectively; it checkpoints whole layers");
  refuse_megatron_recomputation(like, found);
}

void restrict_to_accelerate(const cost::Job& job, plan::PlanLimits& limits) {
  for (const char* one : {"tp=1", "pp=1", "cp=1", "ep=1", "zero=0,2,3", "schedule=1f1b"}) plan::set_limit(limits, one);
  if (has_experts(job.model)) plan::set_limit(limits, "etp=1");
  limits.zero_outer[1] = false;
  limits.more_offloads = false;
  admit_common_recomputation(false, limits);
}

}  // namespace nest::exporter
