#include "exporter/megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "base/text.h"
#include "cost/constants.h"
#include "cost/group_time.h"
#include "exporter/framework.h"
#include "exporter/gpt.h"
#include "exporter/megatron_stack.h"
#include "exporter/model_facts.h"
#include "exporter/pipeline_layout.h"

namespace nest::exporter {
namespace {

class Arguments {
 public:
  void flag(const char* name) { options_.push_back({name, {}}); }
  void flag_if(bool condition, const char* name) {
    if (condition) flag(name);
  }
  void value(const char* name, std::int64_t number) { options_.push_back({name, {fmt::format("{}", number)}}); }
  void value(const char* name, double number) { options_.push_back({name, {fmt::format("{}", number)}}); }
  void value(const char* name, const std::string& word) { options_.push_back({name, {word}}); }
  void values(const char* name, std::vector<std::string> words) { options_.push_back({name, std::move(words)}); }
  void add(std::vector<LaunchOption> options) {
    std::move(options.begin(), options.end(), std::back_inserter(options_));
  }
  std::vector<LaunchOption> take() { return std::move(options_); }

 private:
  std::vector<LaunchOption> options_;
};

void add_attention(Arguments& args, const GptModel& gpt) {
  args.value("--num-attention-heads", gpt.heads);
  if (gpt.latent) {
    const model::LatentAttention& latent = *gpt.latent;
    args.value("--kv-channels", latent.value_dim);
    args.flag("--multi-latent-attention");
    if (latent.query_rank > 0) args.value("--q-lora-rank", latent.query_rank);
    args.value("--kv-lora-rank", latent.kv_rank);
    args.value("--qk-head-dim", latent.nope_dim);
    args.value("--qk-pos-emb-head-dim", latent.rope_dim);
    args.value("--v-head-dim", latent.value_dim);
    args.flag("--qk-layernorm");  // of the latents
    return;
  }
  args.value("--kv-channels", gpt.head_dim);
  if (gpt.kv_heads != gpt.heads) {
    args.flag("--group-query-attention");
    args.value("--num-query-groups", gpt.kv_heads);
  }
  args.flag_if(gpt.qk_norm, "--qk-layernorm");
}

void add_experts(Arguments& args, const GptModel& gpt) {
  if (!gpt.experts) return;
  const GptExperts& experts = *gpt.experts;
  args.value("--num-experts", experts.experts);
  args.value("--moe-router-topk", experts.top_k);
  if (experts.groups > 1) {
    args.value("--moe-router-num-groups", experts.groups);
    args.value("--moe-router-group-topk", experts.top_groups);
  }
  args.value("--moe-ffn-hidden-size", experts.width);
  if (const std::string pattern = layer_frequency(experts.sparse); !pattern.empty()) {
    args.value("--moe-layer-freq", pattern);
  }
  if (experts.shared_width > 0) args.value("--moe-shared-expert-intermediate-size", experts.shared_width);
  args.flag("--moe-grouped-gemm");
}

void add_model(Arguments& args, const cost::Job& job, const GptModel& gpt, const ModelFacts& facts) {
  args.value("--num-layers", gpt.layers);
  if (job.run.mtp_layers > 0) args.value("--mtp-num-layers", job.run.mtp_layers);
  args.value("--hidden-size", gpt.hidden);
  args.value("--ffn-hidden-size", gpt.width);
  add_attention(args, gpt);
  args.value("--seq-length", job.run.sequence);
  args.value("--max-position-embeddings", std::max(gpt.positions, job.run.sequence));
  switch (gpt.position) {
    case model::PositionKind::rotary:
      args.value("--position-embedding-type", std::string(facts.is_yarn() && !gpt.latent ? "yarn" : "rope"));
      break;
    case model::PositionKind::learned: args.value("--position-embedding-type", std::string("learned_absolute")); break;
    default: args.value("--position-embedding-type", std::string("none")); break;
  }
  if (gpt.position == model::PositionKind::rotary && !gpt.latent && gpt.rotary_fraction < 1) {
    args.value("--rotary-percent", gpt.rotary_fraction);
  }
  args.value("--normalization", std::string(gpt.rms_norm ? "RMSNorm" : "LayerNorm"));
  args.flag_if(gpt.gated, "--swiglu");
  args.flag_if(gpt.squared_relu, "--squared-relu");
  args.flag_if(!gpt.linear_bias, "--disable-bias-linear");
  args.flag_if(gpt.qkv_bias && !gpt.linear_bias, "--add-qkv-bias");
  args.flag_if(!gpt.tied, "--untie-embeddings-and-output-weights");
  args.value("--attention-dropout", job.stack.dropout ? gpt.attention_dropout : 0.0);
  args.value("--hidden-dropout", job.stack.dropout ? gpt.dropout : 0.0);
  add_experts(args, gpt);
}

void add_pipeline(Arguments& args, const ExportTask& task) {
  const Strategy& s = task.strategy;
  args.value("--pipeline-model-parallel-size", s.pp);
  if (s.pp == 1) return;
  if (!is_even_cut(task.job.model, task.stages, s.virtual_stages)) {
    args.value("--pipeline-model-parallel-layout",
               pipeline_layout(chunk_blocks(task.job.model, task.stages, s.virtual_stages), task.job.run.mtp_layers));
  } else if (s.virtual_stages > 1) {
    args.value("--num-virtual-stages-per-pipeline-rank", s.virtual_stages);
  }
  if (s.group != 0) args.value("--microbatch-group-size-per-virtual-pipeline-stage", s.group);
  args.flag_if(s.virtual_stages > 1 && !task.job.stack.pipeline_overlap, "--no-overlap-p2p-communication");
  args.flag_if(cost::sends_of(task.job.stack, s).flush, "--overlap-p2p-communication-warmup-flush");
  args.flag_if(s.pp > 1 && !task.job.stack.aligned_gradients, "--no-align-grad-reduce");
}

void add_parallel(Arguments& args, const ExportTask& task) {
  const Split& split = task.strategy.split;
  args.value("--tensor-model-parallel-size", split.tp);
  args.flag_if(split.sp, "--sequence-parallel");
  args.flag_if(overlaps_tensor(task), "--tp-comm-overlap");
  add_pipeline(args, task);
  args.value("--context-parallel-size", split.cp);
  if (split.cp > 1) args.value("--cp-comm-type", std::string(to_string(split.cp_comm)));
  if (split.cp_inner > 1) {
    args.values("--hierarchical-context-parallel-sizes",
                {std::to_string(split.cp_inner), std::to_string(split.cp / split.cp_inner)});
  }
  if (has_experts(task.job.model)) {
    args.value("--expert-model-parallel-size", split.ep);
    args.value("--expert-tensor-parallel-size", split.expert_tp());
  }
  args.flag_if(task.order == groups::RankOrder::replicas_last, "--use-tp-pp-dp-mapping");
}

void add_sharding(Arguments& args, const ExportTask& task) {
  const cost::SoftwareStack& stack = task.job.stack;
  const Sharding sharding = sharding_of(task.strategy, task.stages.front());
  const bool distributed = sharding.zero >= 1 || needs_distributed_optimizer(task);
  const bool overlaps = stack.data_overlap != cost::DataOverlap::none && has_replicas(task);
  if (sharding.zero >= 2) {
    args.flag("--use-megatron-fsdp");
    args.value("--data-parallel-sharding-strategy",
               std::string(sharding.zero == 2 ? "optim_grads" : "optim_grads_params"));
    args.value("--ckpt-format", std::string("fsdp_dtensor"));
    // It has words of its own for what others say with --grad-reduce-in-bf16.
    const auto format = [](double bytes) { return std::string(bytes < 4 ? "bf16" : "fp32"); };
    args.value("--megatron-fsdp-main-grads-dtype", format(stack.gradient_bytes));
    args.value("--megatron-fsdp-grad-comm-dtype", format(stack.gradient_traffic_bytes));
    if (const char* const buffers = fsdp_buffers(task)) args.flag(buffers);
  }
  // Megatron-FSDP in its first version runs on the distributed optimizer.
  args.flag_if(distributed, "--use-distributed-optimizer");
  const std::int64_t instances = sharding.zero > 0 ? groups::dense_replicas(task.strategy) / sharding.degree : 1;
  if (instances > 1) args.value("--num-distributed-optimizer-instances", instances);
  if (sharding.outer) args.value("--outer-dp-sharding-strategy", std::string("optim"));
  args.flag_if(overlaps, "--overlap-grad-reduce");
  args.flag_if(overlaps && distributed, "--overlap-param-gather");
  args.flag_if(stack.gradient_traffic_bytes < 4, "--grad-reduce-in-bf16");
}

void add_recomputation(Arguments& args, const ExportTask& task) {
  const std::vector<StageBlocks> blocks = stage_blocks(task.job.model, task.stages);
  Recomputation mode;
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    if (blocks[s].blocks > 0) mode = task.stages[s].recompute;
  }
  if (mode == Recompute::none) return;
  args.value("--recompute-granularity", std::string(mode.whole_layers() ? "full" : "selective"));
  if (mode.whole_layers()) {
    args.value("--recompute-method", std::string(mode.kind == Recompute::block ? "block" : "uniform"));
    args.value("--recompute-num-layers", std::max<std::int64_t>(1, mode.layers));
  } else {
    args.values("--recompute-modules", recompute_modules(task.job.stack, mode));
  }
}

void add_precision(Arguments& args, const cost::Job& job) {
  switch (job.run.precision) {
    case Precision::fp16: args.flag("--fp16"); break;
    case Precision::fp32:
    case Precision::tf32: break;
    case Precision::bf16: args.flag("--bf16"); break;
    case Precision::fp8:
      args.flag("--bf16");
      // MXFP8 has one format for everything (Megatron-Bridge, training/mixed_precision.py).
      args.value("--fp8-format", std::string(fp8_recipe(job) == "mxfp8" ? "e4m3" : "hybrid"));
      args.value("--fp8-recipe", fp8_recipe(job));
      break;
    case Precision::fp4:
      args.flag("--bf16");
      args.value("--fp4-format", std::string("e2m1"));
      break;
  }
  // Moments of one byte are a format of Adam's (state_options).
  args.value("--optimizer",
             std::string(to_string(job.run.optimizer == Optimizer::adam8bit ? Optimizer::adam : job.run.optimizer)));
}

}  // namespace

std::vector<std::string> recompute_modules(const cost::SoftwareStack& stack, const Recomputation& recompute) {
  std::vector<std::string> names;
  const bool own = recompute.kind == Recompute::selective;
  for (const model::Module module : own ? stack.selective_modules : split::modules_of(recompute.modules)) {
    switch (module) {
      case model::Module::core_attention: names.emplace_back("core_attn"); break;
      case model::Module::norm: names.emplace_back("layernorm"); break;
      case model::Module::feed_forward: names.emplace_back("mlp"); break;
      case model::Module::moe: names.emplace_back("moe"); break;
      case model::Module::moe_activation: names.emplace_back("moe_act"); break;
      case model::Module::latent_up: names.emplace_back("mla_up_proj"); break;
      case model::Module::shared_experts: names.emplace_back("shared_experts"); break;
      default:
        throw InputError(
            fmt::format("megatron: stack {} recomputes activations alone, which no module of "
                        "--recompute-modules does",
                        stack.name));
    }
  }
  return names;
}

std::string layer_frequency(const std::vector<bool>& sparse) {
  if (std::all_of(sparse.begin(), sparse.end(), [](bool layer) { return layer; })) return {};
  const std::size_t n = sparse.size();
  for (std::size_t period = 2; period <= 8 && period < n; ++period) {
    if (n % period != 0) continue;
    bool repeats = true;
    for (std::size_t i = period; i < n && repeats; ++i) repeats = sparse[i] == sparse[i - period];
    if (!repeats) continue;
    std::string body;
    for (std::size_t i = 0; i < period; ++i) body += fmt::format("{}{}", i == 0 ? "" : ",", sparse[i] ? 1 : 0);
    return fmt::format("([{}]*{})", body, n / period);
  }
  std::string text;
  for (std::size_t i = 0; i < n;) {
    std::size_t end = i;
    while (end < n && sparse[end] == sparse[i]) ++end;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", sparse[i] ? 1 : 0, end - i);
    i = end;
  }
  return "(" + text + ")";
}

bool needs_one_connection(const cluster::Device& device) {
  constexpr std::array kBeforeBlackwell = {"v100", "a100", "a800", "h100", "h200", "h800"};
  const std::string name = to_lower(device.name);
  return std::any_of(kBeforeBlackwell.begin(), kBeforeBlackwell.end(),
                     [&](const char* known) { return name.starts_with(known); });
}

MegatronExport export_megatron(const ExportTask& task) {
  MegatronExport exported;
  Arguments args;
  if (task.with_model) {
    GptModel gpt;
    const std::string& name = task.job.model.architecture.name;
    if (const std::string reason = describe_gpt(task.job.model.architecture, gpt); !reason.empty()) {
      throw InputError(
          fmt::format("megatron: pretrain_gpt.py cannot build {}: {}; --no-model leaves its sizes out", name, reason));
    }
    const ModelFacts facts = read_model_facts(task.job.model.architecture);
    add_model(args, task.job, gpt, facts);
    FactOptions carried = megatron_facts(facts, gpt);
    for (const auto& [option, value] : carried.options) {
      value.empty() ? args.flag(option.c_str()) : args.value(option.c_str(), value);
    }
    for (std::string& note : carried.notes) exported.notes.push_back(std::move(note));
    const std::int64_t further = task.job.model.architecture.further_tokens;
    if (further > task.job.run.mtp_layers) {
      exported.notes.push_back(
          fmt::format("config.json has {} layer{} that predict further tokens, of which {} were planned (--mtp-layers)",
                      further, further == 1 ? "" : "s", task.job.run.mtp_layers));
    }
    if (gpt.window > 0) {  // keys before a query, and after it
      args.value("--window-size", fmt::format("{},0", gpt.window - 1));
      exported.notes.emplace_back("a sliding window needs Megatron-Core 0.15 (--window-size)");
    }
  }
  add_parallel(args, task);
  add_sharding(args, task);
  add_recomputation(args, task);
  args.value("--micro-batch-size", task.strategy.micro_batch);
  // Kernels know a causal mask; one of sequence x sequence bytes per sample is in no plan's memory.
  args.flag("--no-create-attention-mask-in-dataloader");
  args.value("--global-batch-size", task.job.run.global_batch);
  add_precision(args, task.job);
  for (std::vector<LaunchOption> part : {layer_options(task), state_options(task)}) args.add(std::move(part));
  const bool expert_overlap = overlaps_experts(task);
  args.flag_if(expert_overlap, "--overlap-moe-expert-parallel-comm");
  args.flag_if(expert_overlap && task.job.stack.delay_wgrad, "--delay-wgrad-compute");
  if (cost::defers_head(task.job.stack, task.strategy)) {
    args.flag("--defer-embedding-wgrad-compute");
    args.value("--wgrad-deferral-limit", static_cast<std::int64_t>(cost::constants::kDeferredMicroBatches));
  }
  if (task.with_model) {
    args.value("--train-iters", std::int64_t{10});
    args.value("--lr", std::string("1e-4"));
    args.flag("--mock-data");
    args.value("--tokenizer-type", std::string("NullTokenizer"));
    args.value("--vocab-size", task.job.model.architecture.vocabulary);
    exported.notes.emplace_back("data, tokenizer, learning rate and iterations are placeholders");
  }
  exported.options = args.take();
  const Sharding sharding = sharding_of(task.strategy, task.stages.front());
  const Split& split = task.strategy.split;
  if (sharding.zero < 2 && !expert_overlap && (split.tp > 1 || split.cp > 1) &&
      needs_one_connection(task.job.cluster.device)) {
    exported.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  }
  for (auto& variable : stack_environment(task)) exported.environment.push_back(std::move(variable));
  for (std::string& note : stack_notes(task)) exported.notes.push_back(std::move(note));
  return exported;
}

std::string arguments_text(const std::vector<LaunchOption>& options) {
  std::string text;
  for (const LaunchOption& option : options) {
    text += option.name;
    for (const std::string& value : option.values) text += " " + value;
    text += '\n';
  }
  return text;
}

std::string launch_script(const MegatronExport& exported, std::int64_t hosts, std::int64_t ranks_per_host,
                          const std::string& visible_devices) {
  std::string text =
      "#!/bin/bash\n"
      "# Run on every host, in the order that `nest export --to rankfile --framework megatron` gives, with NODE_RANK "
      "(0, 1, ...) and\n"
      "# MASTER_ADDR (the first host) set.\n"
      "set -eu\n";
  for (const auto& [name, value] : exported.environment) text += fmt::format("export {}={}\n", name, value);
  if (!visible_devices.empty()) text += fmt::format("export CUDA_VISIBLE_DEVICES={}\n", visible_devices);
  text += fmt::format(
      "torchrun --nnodes {} --nproc-per-node {} --node-rank \"$NODE_RANK\" \\\n"
      "    --master-addr \"$MASTER_ADDR\" --master-port 29500 pretrain_gpt.py",
      hosts, ranks_per_host);
  for (const LaunchOption& option : exported.options) {
    text += " \\\n    " + option.name;
    for (const std::string& value : option.values) text += " " + shell_quoted(value);
  }
  return text + "\n";
}

}  // namespace nest::exporter
