#include "exporter/megatron_stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "cost/facts.h"
#include "cost/layer_price.h"
#include "cost/memory.h"
#include "cost/overlap.h"
#include "exporter/framework.h"
#include "exporter/gpt.h"
#include "launch/stack_options.h"

namespace nest::exporter {
namespace {

constexpr int kFusedRows = 256;  // to which only fused grouped products pad

std::string number(double value) { return fmt::format("{:g}", value); }

bool recomputes_layers(const ExportTask& task) {
  return std::any_of(task.stages.begin(), task.stages.end(),
                     [](const StagePlan& stage) { return stage.recompute.whole_layers(); });
}

bool lacks_multicast(const cluster::Device& device) {
  constexpr std::array kBeforeHopper = {"v100", "a100", "a800"};
  const std::string name = to_lower(device.name);
  return std::any_of(kBeforeHopper.begin(), kBeforeHopper.end(),
                     [&](const char* known) { return name.starts_with(known); });
}

bool has_dense_layers(const model::Model& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), [](const model::Layer& layer) {
    return layer.kind == model::LayerKind::block && layer.experts == 0;
  });
}

bool captures(const cost::SoftwareStack& stack, cost::GraphScope scope) {
  return std::find(stack.graph_scopes.begin(), stack.graph_scopes.end(), scope) != stack.graph_scopes.end();
}

// Words of --cuda-graph-modules that this model has and Megatron captures beside what is recomputed.
std::vector<std::string> graph_modules(const ExportTask& task) {
  const cost::SoftwareStack& stack = task.job.stack;
  const bool experts = has_experts(task.job.model);
  const auto& chosen = stack.selective_modules;
  const bool chooses = std::find(chosen.begin(), chosen.end(), model::Module::moe) != chosen.end();
  const bool repeats = std::any_of(task.stages.begin(), task.stages.end(), [&](const StagePlan& stage) {
    if (stage.recompute == Recompute::selective) return chooses;
    return (stage.recompute.modules & set_of(RecomputeModule::moe)) != 0;
  });
  std::vector<std::string> modules;
  for (const cost::GraphScope scope : stack.graph_scopes) {
    const bool routes = scope == cost::GraphScope::router || scope == cost::GraphScope::preprocess;
    if (routes && (!experts || repeats)) continue;
    if (scope == cost::GraphScope::feed_forward && !has_dense_layers(task.job.model)) continue;
    modules.emplace_back(launch::graph_module(scope));
  }
  return modules;
}

enum class Graphs : std::uint8_t { none, layers, step };

Graphs graphs_of(const ExportTask& task) {
  if (captures(task.job.stack, cost::GraphScope::full)) return Graphs::step;
  return recomputes_layers(task) || graph_modules(task).empty() ? Graphs::none : Graphs::layers;
}

// Both moments in 16 or in 8 bits, which only the precision-aware optimizer keeps; empty: neither.
std::string narrow_moments(const cost::Job& job) {
  const double bytes = cost::facts_of(job.run.optimizer).moments(job.stack.moments_bytes);
  if (!cost::reads_narrow_gradients(job)) return {};
  return bytes == 4 ? "bf16" : bytes == 2 ? "fp8" : "";
}
// The precision-aware optimizer runs: for such moments, or on the host.
bool is_precision_aware(const cost::Job& job) { return !narrow_moments(job).empty() || job.run.optimizer_offload > 0; }

void add_dispatch(const ExportTask& task, std::vector<LaunchOption>& options) {
  const cost::DispatchRule& rule = task.job.stack.dispatch;
  const Split& split = task.strategy.split;
  // The flexible dispatchers exist among several ranks only; with one, nothing is sent.
  const bool flexible = cost::facts_of(rule.dispatcher).forwards && split.ep * split.expert_tp() > 1;
  const bool forwards = cost::facts_of(rule.dispatcher).forwards;
  options.push_back({"--moe-token-dispatcher-type",
                     {flexible   ? "flex"
                      : forwards ? "alltoall"
                                 : to_string(rule.dispatcher)}});
  if (!flexible) return;
  options.push_back({"--moe-flex-dispatcher-backend", {to_string(rule.dispatcher)}});
  if (rule.multiprocessors > 0) {
    options.push_back({"--moe-flex-dispatcher-num-sms", {fmt::format("{}", rule.multiprocessors)}});
  }
}

void add_rows(const ExportTask& task, std::vector<LaunchOption>& options) {
  const cost::SoftwareStack& stack = task.job.stack;
  if (stack.routing.capacity > 0) {
    options.push_back({"--moe-expert-capacity-factor", {number(stack.routing.capacity)}});
    if (stack.routing.padded) options.push_back({"--moe-pad-expert-input-to-capacity", {}});
  }
  if (stack.fused_experts || stack.routing.rows == kFusedRows)
    options.push_back({"--use-transformer-engine-op-fuser", {}});
  const Split& split = task.strategy.split;
  if (stack.rank_capacity == 0 || split.ep * split.expert_tp() == 1) return;
  options.push_back({"--moe-expert-rank-capacity-factor", {number(stack.rank_capacity)}});
  if (stack.paged_stash == 0) return;
  options.push_back({"--moe-paged-stash", {}});
  options.push_back({"--moe-paged-stash-buffer-size-factor-cuda", {number(stack.paged_stash)}});
}

// Tensors of modules on the host. Graphs of whole steps need to know how many copies may be under way: one per module.
void add_host_activations(const ExportTask& task, std::vector<LaunchOption>& options) {
  const OffloadSet modules = task.strategy.split.offload;
  if (modules == 0) return;
  LaunchOption named{"--offload-modules", {}};
  for (const auto& word : kOffloadModuleWords) {
    if ((modules & set_of(word.value)) != 0) named.values.emplace_back(word.text);
  }
  options.push_back({"--fine-grained-activation-offloading", {}});
  options.push_back(std::move(named));
  if (graphs_of(task) == Graphs::step) options.push_back({"--fine-grained-offloading-max-inflight-offloads", {"1"}});
}

}  // namespace

bool overlaps_experts(const ExportTask& task) {
  const cost::SoftwareStack& stack = task.job.stack;
  return stack.expert_overlap && task.strategy.split.ep > 1 &&
         (task.strategy.pp == 1 || task.strategy.virtual_stages > 1) && task.job.run.mtp_layers <= 1 &&
         std::all_of(task.stages.begin(), task.stages.end(),
                     [&](const StagePlan& stage) { return cost::can_pair(stack, stage.recompute); });
}

bool overlaps_tensor(const ExportTask& task) {
  // training/determinism.py refuses both the overlap and the fused loss.
  return !task.job.stack.deterministic && cost::overlaps_tensor(task.job, task.strategy.split);
}

const char* fsdp_buffers(const ExportTask& task) {
  if (overlaps_experts(task)) return nullptr;
  const auto& kinds = task.job.model.kinds;
  const auto blocks = std::count_if(kinds.begin(), kinds.end(),
                                    [](const model::Layer& layer) { return layer.kind == model::LayerKind::block; });
  return blocks > 1 ? "--megatron-fsdp-max-pool-double-buffer" : "--fsdp-double-buffer";
}

std::vector<LaunchOption> layer_options(const ExportTask& task) {
  std::vector<LaunchOption> options;
  const cost::SoftwareStack& stack = task.job.stack;
  if (has_experts(task.job.model)) {
    add_dispatch(task, options);
    if (stack.fused_router) options.push_back({"--moe-router-fusion", {}});
    if (stack.shared_expert_overlap) options.push_back({"--moe-shared-expert-overlap", {}});
    add_rows(task, options);
  }
  if (stack.fp8_attention && task.job.run.precision == Precision::fp8) {
    options.push_back({"--fp8-dot-product-attention", {}});
  }
  if (stack.fp8_head && task.job.run.precision == Precision::fp8 && fp8_recipe(task.job) == "mxfp8") {
    options.push_back({"--fp8-output-proj", {}});
  }
  switch (graphs_of(task)) {
    case Graphs::none: break;
    case Graphs::step: options.push_back({"--cuda-graph-impl", {"full_iteration"}}); break;
    case Graphs::layers:
      options.push_back({"--cuda-graph-impl", {"transformer_engine"}});
      options.push_back({"--cuda-graph-modules", graph_modules(task)});
      break;
  }
  add_host_activations(task, options);
  return options;
}

bool has_replicas(const ExportTask& task) {
  return groups::dense_replicas(task.strategy) > 1 ||
         (has_experts(task.job.model) && groups::expert_replicas(task.strategy) > 1);
}

bool needs_distributed_optimizer(const ExportTask& task) {
  const auto recipe = launch::weight_recipe(task.job.run.precision, task.job.stack);
  const bool formats = is_precision_aware(task.job) || (recipe && recipe->gathered);
  if (task.stages.front().zero < 1) return false;
  // A degree of 1 among several replicas shards nothing; where experts alone have replicas, theirs are sharded.
  const bool sharded = groups::dense_replicas(task.strategy) > 1
                           ? sharding_of(task.strategy, task.stages.front()).zero > 0
                           : has_replicas(task);
  return formats || sharded;
}

std::string fp8_recipe(const cost::Job& job) {
  const auto recipe = launch::weight_recipe(Precision::fp8, job.stack);
  return recipe ? std::string(recipe->name) : "tensorwise";  // the only one that all recomputation modules allow
}

std::vector<LaunchOption> offload_options(const ExportTask& task) {
  const std::int64_t percent = task.job.run.optimizer_offload;
  if (percent == 0) return {};
  std::vector<LaunchOption> options = {{"--optimizer-cpu-offload", {}},
                                       {"--optimizer-offload-fraction", {number(static_cast<double>(percent) / 100)}}};
  if (task.job.stack.offload_overlap) options.push_back({"--overlap-cpu-optimizer-d2h-h2d", {}});
  return options;
}

std::vector<LaunchOption> state_options(const ExportTask& task) {
  std::vector<LaunchOption> options;
  const cost::SoftwareStack& stack = task.job.stack;
  const Precision precision = task.job.run.precision;
  const auto flag = [&](bool wanted, const char* name) {
    if (wanted) options.push_back({name, {}});
  };
  // Transformer Engine's own kernel is refused by pretrain_gpt.py; its native one keeps as little.
  flag(stack.loss == cost::LossKernel::fused && !stack.deterministic, "--cross-entropy-loss-fusion");
  flag(stack.deterministic, "--deterministic-mode");
  if (stack.attention == cost::AttentionKernel::flash2) options.push_back({"--attention-backend", {"flash"}});
  if (stack.attention == cost::AttentionKernel::unfused) options.push_back({"--attention-backend", {"unfused"}});
  const auto recipe = launch::weight_recipe(precision, stack);
  const bool sharded = task.stages.front().zero >= 1;
  if (recipe && recipe->gathered && sharded) {
    flag(true, precision == Precision::fp8 ? "--fp8-param-gather" : "--fp4-param-gather");
    flag(recipe->name == "mxfp8", "--reuse-grad-buf-for-mxfp8-param-ag");
  }
  // Whole steps are captured without looking at the values.
  flag(graphs_of(task) == Graphs::step, "--no-check-for-nan-in-loss-and-grad");
  if (is_precision_aware(task.job) && sharded) {
    flag(true, "--use-precision-aware-optimizer");
    if (stack.gradient_bytes == 2) options.push_back({"--main-grads-dtype", {"bf16"}});
    if (const std::string format = narrow_moments(task.job); !format.empty()) {
      options.push_back({"--exp-avg-dtype", {format}});
      options.push_back({"--exp-avg-sq-dtype", {format}});
    }
  }
  for (LaunchOption& option : offload_options(task)) options.push_back(std::move(option));
  return options;
}

std::vector<std::pair<std::string, std::string>> stack_environment(const ExportTask& task) {
  std::vector<std::pair<std::string, std::string>> environment;
  // Without it Transformer Engine hands weights over too, and Megatron refuses to start.
  if (task.strategy.split.offload != 0) environment.emplace_back("NVTE_CPU_OFFLOAD_V1", "1");
  if (task.job.stack.deterministic) {
    environment.emplace_back("NCCL_ALGO", "Ring");
    environment.emplace_back("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0");
    environment.emplace_back("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  }
  // User buffers of devices without multicast (before Hopper) are shared as handles between processes instead.
  if (overlaps_tensor(task) && lacks_multicast(task.job.cluster.device)) environment.emplace_back("UB_SKIPMC", "1");
  if (!task.job.stack.expandable_segments) return environment;
  environment.emplace_back("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
  if (graphs_of(task) == Graphs::layers) environment.emplace_back("NCCL_GRAPH_REGISTER", "0");
  return environment;
}

std::vector<std::string> stack_notes(const ExportTask& task) {
  std::vector<std::string> notes;
  const cost::SoftwareStack& stack = task.job.stack;
  if (has_experts(task.job.model) && stack.routing.kind != cost::RoutingKind::forced) {
    notes.push_back(
        fmt::format("experts were modelled with a load of {}, which no option sets", to_text(stack.routing)));
  }
  const Split& split = task.strategy.split;
  if (stack.tensor_overlap && split.sp && !overlaps_tensor(task)) {
    notes.push_back(fmt::format("tensor-parallel collectives are not overlapped: {}",
                                stack.deterministic
                                    ? "Megatron refuses that in deterministic mode"
                                    : "its buffers are those of one node, and there are none for latent attention"));
  }
  if (stack.expert_overlap && split.ep > 1 && !overlaps_experts(task)) {
    notes.push_back(
        fmt::format("stack {} sends routed tokens behind another micro-batch, which Megatron does not "
                    "without virtual stages, with several MTP layers or beside recomputed layers: it is "
                    "off, and modelled so",
                    stack.name));
  }
  if (stack.deterministic && stack.loss == cost::LossKernel::fused) {
    notes.emplace_back("the fused loss is left out: Megatron refuses it in deterministic mode");
  }
  if (!stack.fused_rowwise) {
    notes.push_back(
        fmt::format("stack {} assumes norms and activations as kernels of PyTorch; Transformer Engine fuses "
                    "them (--transformer-impl local does not)",
                    stack.name));
  }
  if (stack.unfused_accumulation) {
    notes.push_back(fmt::format(
        "stack {} adds gradients up in kernels of their own (--no-gradient-accumulation-fusion)", stack.name));
  }
  if (stack.attention == cost::AttentionKernel::triton) {
    notes.push_back(
        fmt::format("stack {} assumes Triton's first attention kernels, which no option chooses", stack.name));
  }
  if (!stack.graph_scopes.empty() && graphs_of(task) == Graphs::none) {
    notes.push_back(
        fmt::format("stack {} captures CUDA graphs, which Megatron does not beside full recomputation or in "
                    "a model without such parts: they are left out",
                    stack.name));
  }
  return notes;
}

}  // namespace nest::exporter
