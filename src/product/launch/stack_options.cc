#include "launch/stack_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "launch/fsdp_options.h"
#include "split/local_layer.h"

namespace nest::launch {
namespace {

constexpr double kMostFactor = 1000, kMostBytes = 1e15;
constexpr std::int64_t kMostLayers = 100'000;
// What memory fragmentation is no longer counted for, as in the presets of Megatron-Bridge.
constexpr double kMarginWithPages = 0.02;
constexpr int kFusedRows = 256;  // to which Transformer Engine's fused grouped products pad

class StackReader {
 public:
  StackReader(const LaunchOptions& options, const ShellVariables& environment, LaunchSetup& setup)
      : options_(options), environment_(environment), setup_(setup), stack_(setup.stack) {}

  void run() {
    stack_ = *cost::find_stack("megatron-core-plain");
    modules();
    overlap();
    kernels();
    state();
    experts();
    activations();
    allocator();
  }

 private:
  bool flag(std::string_view name) const { return options_.flag(name); }

  void modules() {
    const std::vector<std::string> names = options_.texts("--recompute-modules");
    if (names.empty()) return;
    static const std::vector<std::pair<std::string, model::Module>> kModules = {
        {"core_attn", model::Module::core_attention},
        {"moe_act", model::Module::moe_activation},
        {"layernorm", model::Module::norm},
        {"mla_up_proj", model::Module::latent_up},
        {"mlp", model::Module::feed_forward},
        {"moe", model::Module::moe},
        {"shared_experts", model::Module::shared_experts}};
    stack_.selective_modules.clear();
    for (const std::string& name : names) {
      const auto found =
          std::find_if(kModules.begin(), kModules.end(), [&](const auto& known) { return known.first == name; });
      if (found != kModules.end()) {
        stack_.selective_modules.push_back(found->second);
      } else if (name == "gdn_norm_out" || name == "gdp_in_proj" || name == "gdp_qkv" || name == "mhc") {
        setup_.notes.push_back(fmt::format("recomputation of {} is not modelled", name));
      } else {
        options_.fail("--recompute-modules", fmt::format("`{}` is no module", clip(name, 40)));
      }
    }
  }

  void overlap() {
    if (flag("--overlap-grad-reduce")) stack_.data_overlap = cost::DataOverlap::buckets;
    if (flag("--use-megatron-fsdp") || flag("--use-torch-fsdp2")) stack_.data_overlap = cost::DataOverlap::fsdp;
    if (flag("--tp-comm-overlap")) {
      if (!flag("--sequence-parallel")) options_.fail("--tp-comm-overlap", "needs --sequence-parallel");
      stack_.tensor_overlap = true;
    }
    stack_.pipeline_overlap = setup_.vpp > 1 && !flag("--no-overlap-p2p-communication");
    if (setup_.vpp > 1 && setup_.pp == 2 && !stack_.pipeline_overlap) {
      options_.fail("--no-overlap-p2p-communication", "two stages cannot be interleaved without the overlap");
    }
    stack_.flush_overlap = flag("--overlap-p2p-communication-warmup-flush");
    if (flag("--no-align-grad-reduce")) stack_.aligned_gradients = false;
    stack_.expert_overlap = flag("--overlap-moe-expert-parallel-comm");
    if (stack_.expert_overlap && flag("--use-megatron-fsdp") && setup_.pp > 1) {
      options_.fail("--overlap-moe-expert-parallel-comm", "excludes --use-megatron-fsdp in a pipeline");
    }
    stack_.shared_expert_overlap = flag("--moe-shared-expert-overlap");
    stack_.delay_wgrad = flag("--delay-wgrad-compute");
    stack_.fused_router = flag("--moe-router-fusion");
    if (stack_.expert_overlap && stack_.shared_expert_overlap) {
      options_.fail("--moe-shared-expert-overlap", "excludes --overlap-moe-expert-parallel-comm");
    }
    if (stack_.delay_wgrad && !stack_.expert_overlap) {
      options_.fail("--delay-wgrad-compute", "needs --overlap-moe-expert-parallel-comm");
    }
    stack_.defer_head_gradient = flag("--defer-embedding-wgrad-compute");
  }

  void kernels() {
    stack_.deterministic = flag("--deterministic-mode");
    graphs();
    if (flag("--cross-entropy-loss-fusion")) stack_.loss = cost::LossKernel::fused;
    const std::string backend =
        options_.choice("--attention-backend", {"flash", "fused", "unfused", "local", "auto"}).value_or("auto");
    if (backend == "unfused" || backend == "local") stack_.attention = cost::AttentionKernel::unfused;
    if (backend == "flash") stack_.attention = cost::AttentionKernel::flash2;
    if (options_.text("--transformer-impl").value_or("") == "local") stack_.fused_rowwise = false;
    stack_.fp8_attention = flag("--fp8-dot-product-attention");
    if (stack_.fp8_attention && setup_.precision != Precision::fp8) {
      options_.fail("--fp8-dot-product-attention", "needs --fp8-format");
    }
    stack_.fp8_head = flag("--fp8-output-proj");
    if (stack_.fp8_head && options_.text("--fp8-recipe").value_or("") != "mxfp8") {
      options_.fail("--fp8-output-proj", "needs --fp8-recipe mxfp8");
    }
    name_mask();
    // The model's own dropout is trained with unless the line says 0.
    const bool none = options_.number("--hidden-dropout", 0, 1).value_or(0.1) == 0 &&
                      options_.number("--attention-dropout", 0, 1).value_or(0.1) == 0;
    stack_.dropout = !setup_.model_config.is_null() && !none;
    if (stack_.dropout)
      setup_.notes.emplace_back(
          "dropout is on (Megatron's default is 0.1); --hidden-dropout 0 --attention-dropout 0 switch it off");
  }

  // A mask of sequence x sequence bytes per sample comes with every batch unless the line says otherwise.
  void name_mask() {
    constexpr double kWorthANote = 1 << 30;
    const double side = static_cast<double>(setup_.sequence.value_or(0));
    const double bytes = side * side * static_cast<double>(setup_.micro_batch.value_or(1));
    if (flag("--no-create-attention-mask-in-dataloader") || bytes < kWorthANote) return;
    setup_.notes.push_back(fmt::format(
        "the loader's attention mask takes {} that are not modelled; --no-create-attention-mask-in-dataloader "
        "leaves it out",
        format_bytes(static_cast<std::int64_t>(bytes))));
  }

  void graphs() {
    const std::string kind =
        options_.choice("--cuda-graph-impl", {"none", "local", "transformer_engine", "full_iteration"})
            .value_or(flag("--enable-cuda-graph") ? "local" : "none");
    const bool named = options_.has("--cuda-graph-modules");
    if (named && options_.has("--cuda-graph-scope")) {
      options_.fail("--cuda-graph-scope", "is the old name of --cuda-graph-modules; Megatron refuses both");
    }
    if (kind == "full_iteration" && named) {
      options_.fail("--cuda-graph-modules", "must be left out with --cuda-graph-impl full_iteration");
    }
    stack_.graph_scopes = graph_scopes(kind, options_.texts(named ? "--cuda-graph-modules" : "--cuda-graph-scope"));
  }

  // Bytes of a format that Megatron names.
  double bytes_of(std::string_view option, const std::vector<std::string>& allowed) const {
    const std::string format = options_.choice(option, allowed).value_or("fp32");
    return format == "fp32" ? 4 : format == "fp8" ? 1 : 2;
  }

  void offload() {
    const double share = options_.number("--optimizer-offload-fraction", 0, 1).value_or(1);
    stack_.offload_overlap = flag("--overlap-cpu-optimizer-d2h-h2d");
    if (!flag("--optimizer-cpu-offload")) return;
    if (!flag("--use-precision-aware-optimizer")) {
      options_.fail("--optimizer-cpu-offload", "needs --use-precision-aware-optimizer");
    }
    if (flag("--fp8-param-gather") && options_.text("--fp8-recipe").value_or("delayed") != "delayed") {
      options_.fail("--optimizer-cpu-offload", "excludes --fp8-param-gather, unless the recipe is delayed");
    }
    setup_.optimizer_offload = std::llround(100 * share);
  }

  // What modules, or whole layers, keep and have on the host.
  void activations() {
    const std::int64_t layers = options_.integer("--cpu-offloading-num-layers", 0, kMostLayers).value_or(0);
    if (layers > 0 && setup_.pp > 1) options_.fail("--cpu-offloading-num-layers", "excludes a pipeline");
    if (layers > 0 && setup_.recompute != Recompute::none) {
      options_.fail("--cpu-offloading-num-layers", "excludes recomputation");
    }
    stack_.offloaded_layers = static_cast<int>(layers);
    if (!flag("--fine-grained-activation-offloading")) return;
    if (layers > 0) options_.fail("--fine-grained-activation-offloading", "excludes --cpu-offloading-num-layers");
    const std::vector<std::string> names = options_.texts("--offload-modules");
    if (names.empty()) options_.fail("--fine-grained-activation-offloading", "needs --offload-modules");
    for (const std::string& name : names) {
      const auto* const known = std::find_if(kOffloadModuleWords.begin(), kOffloadModuleWords.end(),
                                             [&](const auto& word) { return name == word.text; });
      if (known != kOffloadModuleWords.end()) {
        setup_.offload |= set_of(known->value);
      } else if (name == "gdp_qkv") {
        setup_.notes.emplace_back("gdp_qkv on the host is not modelled");
      } else {
        options_.fail("--offload-modules", fmt::format("`{}` is no module", clip(name, 40)));
      }
    }
    // Megatron leaves norms out beside graphs that capture parts of layers.
    constexpr OffloadSet kNorms = set_of(OffloadModule::attn_norm) | set_of(OffloadModule::mlp_norm);
    const auto& scopes = stack_.graph_scopes;
    const bool parts = !scopes.empty() && scopes.front() != cost::GraphScope::full;
    if (parts && (setup_.offload & kNorms) != 0) {
      setup_.offload &= static_cast<OffloadSet>(~kNorms);
      setup_.notes.emplace_back("norms stay on the device beside CUDA graphs (--offload-modules)");
    }
    if (options_.number("--activation-offload-fraction", 0, 1).value_or(1) < 1 ||
        options_.number("--delta-offload-bytes-across-pp-ranks", 0, kMostBytes).value_or(0) > 0) {
      setup_.notes.emplace_back("all groups of --offload-modules are modelled as if on the host, on all stages");
    }
    if (options_.number("--min-offloaded-tensor-size", 0, kMostBytes).value_or(split::kLeastOffloaded) !=
        split::kLeastOffloaded) {
      setup_.notes.emplace_back("tensors of 1048576 elements and more are modelled as if on the host");
    }
  }

  void state() {
    if (flag("--grad-reduce-in-bf16")) stack_.gradient_bytes = stack_.gradient_traffic_bytes = 2;
    if (flag("--use-precision-aware-optimizer")) {
      const std::vector<std::string> narrow = {"fp32", "fp16", "bf16", "fp8"};
      stack_.moments_bytes = bytes_of("--exp-avg-dtype", narrow) + bytes_of("--exp-avg-sq-dtype", narrow);
      stack_.master_bytes = bytes_of("--main-params-dtype", {"fp32", "fp16"});
      if (bytes_of("--main-grads-dtype", {"fp32", "bf16"}) < 4) stack_.gradient_bytes = 2;
    } else {
      for (const char* option : {"--exp-avg-dtype", "--exp-avg-sq-dtype", "--main-params-dtype"}) {
        if (options_.text(option).value_or("fp32") != "fp32") {
          options_.fail(option, "needs --use-precision-aware-optimizer");
        }
      }
    }
    if (flag("--use-megatron-fsdp")) read_fsdp_formats(options_, setup_.precision, stack_);
    offload();
    const bool eight = setup_.precision == Precision::fp8, four = setup_.precision == Precision::fp4;
    if (!eight && !four) return;
    const std::string name =
        eight ? options_.choice("--fp8-recipe", {"delayed", "tensorwise", "mxfp8", "blockwise", "custom"})
                    .value_or("delayed")
              : options_.choice("--fp4-recipe", {"nvfp4", "custom"}).value_or("nvfp4");
    const bool gathered = flag(eight ? "--fp8-param-gather" : "--fp4-param-gather");
    for (const WeightRecipe& recipe : weight_recipes()) {
      if (recipe.precision != setup_.precision || recipe.name != name || recipe.gathered != gathered) continue;
      stack_.weight_bytes = recipe.weight_bytes;
      stack_.weight_traffic_bytes = recipe.traffic_bytes;
      stack_.storage = recipe.storage;
    }
  }

  std::optional<double> factor(std::string_view option) const { return options_.number(option, 0, kMostFactor); }

  void experts() {
    stack_.dispatch = dispatch_rule(options_);
    if (flag("--moe-router-force-load-balancing")) stack_.routing_imbalance = 1;
    stack_.routing.capacity = factor("--moe-expert-capacity-factor").value_or(0);
    stack_.routing.padded = flag("--moe-pad-expert-input-to-capacity");
    if (stack_.routing.padded && stack_.routing.capacity == 0) {
      options_.fail("--moe-pad-expert-input-to-capacity", "needs --moe-expert-capacity-factor");
    }
    const bool fused = flag("--use-transformer-engine-op-fuser");
    stack_.fused_experts = fused;
    if (fused) stack_.routing.rows = kFusedRows;
    stack_.rank_capacity = std::max(0.0, factor("--moe-expert-rank-capacity-factor").value_or(0));
    const cost::Dispatcher dispatcher = stack_.dispatch.dispatcher;
    if (stack_.rank_capacity > 0 && dispatcher != cost::Dispatcher::hybridep &&
        dispatcher != cost::Dispatcher::ncclep) {
      options_.fail("--moe-expert-rank-capacity-factor", "needs --moe-flex-dispatcher-backend hybridep or ncclep");
    }
    if (stack_.rank_capacity > 0 && stack_.rank_capacity < 1) {
      options_.fail("--moe-expert-rank-capacity-factor", "below 1 there is no room for the mean");
    }
    if (!flag("--moe-paged-stash")) return;
    if (stack_.rank_capacity == 0) options_.fail("--moe-paged-stash", "needs --moe-expert-rank-capacity-factor");
    constexpr double kUsualStash = 1.1;
    const double stash = factor("--moe-paged-stash-buffer-size-factor-cuda").value_or(kUsualStash);
    stack_.paged_stash = std::clamp(stash, 1.0, stack_.rank_capacity);
  }

  void allocator() {
    for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
      const auto set = environment_.find(name);
      if (set == environment_.end() || set->second.empty()) continue;
      if (set->second.front().text.find("expandable_segments:True") == std::string::npos) continue;
      stack_.expandable_segments = true;
      stack_.memory_margin = kMarginWithPages;
    }
  }

  const LaunchOptions& options_;
  const ShellVariables& environment_;
  LaunchSetup& setup_;
  cost::SoftwareStack& stack_;
};

}  // namespace

const std::vector<WeightRecipe>& weight_recipes() {
  // Transformer Engine d0067d0d, tensor/storage; Megatron-LM d98e8a64, distributed/param_and_grad_buffer.py: MXFP8 keeps
  // row- and column-wise copies of 33/32 byte and gathers bf16; NVFP4 two copies of 1/2 byte and a scale per 16; a tensor
  // with one scale, current or delayed, is kept with its transpose, which Hopper's products need.
  using cost::Storage;
  static const std::vector<WeightRecipe> recipes = {
      {Precision::fp8, "mxfp8", true, 2.0625, 2, Storage::mxfp8},
      {Precision::fp8, "mxfp8", false, 4.0625, 2, Storage::mxfp8},
      {Precision::fp8, "tensorwise", true, 2, 1, Storage::fp8_tensor},
      {Precision::fp8, "tensorwise", false, 2, 2, Storage::bf16},
      {Precision::fp8, "delayed", true, 2, 1, Storage::fp8_tensor},
      {Precision::fp8, "delayed", false, 2, 2, Storage::bf16},
      {Precision::fp4, "nvfp4", true, 1.125, 0.5, Storage::nvfp4},
      {Precision::fp4, "nvfp4", false, 3.125, 2, Storage::nvfp4},
  };
  return recipes;
}

std::optional<WeightRecipe> weight_recipe(Precision precision, const cost::SoftwareStack& stack) {
  for (const WeightRecipe& recipe : weight_recipes()) {
    if (recipe.precision == precision && recipe.weight_bytes == stack.weight_bytes &&
        recipe.traffic_bytes == stack.weight_traffic_bytes && recipe.storage == stack.storage) {
      return recipe;
    }
  }
  return std::nullopt;
}

std::string_view graph_module(cost::GraphScope scope) {
  switch (scope) {
    case cost::GraphScope::attention: return "attn";
    case cost::GraphScope::feed_forward: return "mlp";
    case cost::GraphScope::router: return "moe_router";
    case cost::GraphScope::preprocess: return "moe_preprocess";
    case cost::GraphScope::full: break;
  }
  return {};
}

std::vector<cost::GraphScope> graph_scopes(std::string_view implementation, const std::vector<std::string>& modules) {
  using cost::GraphScope;
  if (implementation.empty() || implementation == "none") return {};
  if (implementation == "full_iteration") return {GraphScope::full};
  if (modules.empty()) return cost::static_scopes();
  std::vector<GraphScope> captured;
  for (const std::string& name : modules) {
    if (name == "full_iteration") return {GraphScope::full};
    if (name == "full" || name == "full_layer") return cost::static_scopes();
    for (const GraphScope scope : cost::static_scopes()) {
      if (name == graph_module(scope)) captured.push_back(scope);
    }
  }
  return captured;
}

cost::DispatchRule dispatch_rule(const LaunchOptions& options) {
  const std::string type =
      options.choice("--moe-token-dispatcher-type", {"allgather", "alltoall", "flex"}).value_or("allgather");
  if (type != "flex") return {cost::find_dispatcher(type).value(), 0};
  const std::string backend =
      options.choice("--moe-flex-dispatcher-backend", {"deepep", "hybridep", "ncclep"}).value_or("deepep");
  constexpr std::int64_t kMostMultiprocessors = 1024;
  auto busy = options.integer("--moe-flex-dispatcher-num-sms", 1, kMostMultiprocessors);
  // Until 2026 every backend had an option of its own.
  if (!busy && backend == "hybridep") busy = options.integer("--moe-hybridep-num-sms", 1, kMostMultiprocessors);
  if (!busy && backend == "deepep") busy = options.integer("--moe-deepep-num-sms", 1, kMostMultiprocessors);
  return {cost::find_dispatcher(backend).value(), static_cast<int>(busy.value_or(0))};
}

void read_stack_options(const LaunchOptions& options, const ShellVariables& environment, LaunchSetup& setup) {
  StackReader(options, environment, setup).run();
}

}  // namespace nest::launch
