// Settings of Megatron-Core and Megatron-Bridge -> facts of a stack.
#include <algorithm>
#include <cmath>

#include "accuracy/hardware.h"
#include "accuracy/software.h"
#include "launch/stack_options.h"

namespace nest::accuracy {
namespace {

double bytes_of_format(const std::optional<std::string>& format, double otherwise) {
  if (!format) return otherwise;
  if (*format == "fp32") return 4;
  if (*format == "bf16" || *format == "fp16") return 2;
  return *format == "fp8" ? 1 : otherwise;
}

bool recipe_mentions(const Settings& settings, const char* word) {
  return settings.precision_recipe && settings.precision_recipe->find(word) != std::string::npos;
}

class Translation {
 public:
  explicit Translation(const PublishedRun& run) : run_(run), settings_(run.settings) {}

  Software result() {
    base();
    state();
    overlap();
    kernels();
    if (run_.moe()) experts();
    host();
    return std::move(made_);
  }

 private:
  void base() {
    const auto found = cost::find_stack("megatron-core");
    stack() = found ? *found : cost::stack_presets().front();
    // Megatron-Bridge leaves defer_embedding_wgrad_compute off (training/comm_overlap.py).
    stack().defer_head_gradient = false;
    stack().forward_sends_block = false;  // the runs are older than core 0.18
  }

  void state() {
    if (settings_.reduce_in_fp32) {
      stack().gradient_bytes = *settings_.reduce_in_fp32 ? 4 : 2;
      stack().gradient_traffic_bytes = stack().gradient_bytes;
    }
    if (settings_.first_moment || settings_.second_moment || settings_.main_params) {
      stack().master_bytes = bytes_of_format(settings_.main_params, 4);
      stack().moments_bytes = bytes_of_format(settings_.first_moment, 4) + bytes_of_format(settings_.second_moment, 4);
    }
    if (settings_.optimizer.find("muon") != std::string::npos) made_.optimizer = Optimizer::muon;
    made_.optimizer_offload = std::llround(100 * std::clamp(settings_.offloaded_optimizer.value_or(0), 0.0, 1.0));
    stack().offload_overlap = false;  // Megatron-Core's default
    weights();
    stack().expandable_segments = settings_.expandable_segments.value_or(expandable());
    stack().memory_margin = 0.02;  // as the presets of Megatron-Bridge
    stack().offloaded_layers =
        static_cast<int>(std::clamp<std::int64_t>(settings_.offloaded_layers.value_or(0), 0, 1000));
  }

  // Copies of the weights of linear layers that are there at once, and what is gathered.
  void weights() {
    const bool gathered8 = settings_.gather_fp8.value_or(false), gathered4 = settings_.gather_fp4.value_or(false);
    if (recipe_mentions(settings_, "per tensor")) {
      stack().storage = cost::Storage::fp8_tensor;
      const double copies = run_.gpu.starts_with("H") ? 2 : 1;  // Hopper's products need the transpose as well
      stack().weight_bytes = gathered8 ? copies : 2 + copies;
      if (gathered8) stack().weight_traffic_bytes = 1;
    } else if (recipe_mentions(settings_, "mxfp8")) {
      stack().storage = cost::Storage::mxfp8;
      stack().weight_bytes = gathered8 ? 2.0625 : 4.0625;  // gathers bf16 (param_and_grad_buffer.py)
    } else if (recipe_mentions(settings_, "fp4")) {
      stack().storage = cost::Storage::nvfp4;
      stack().weight_bytes = gathered4 ? 1.125 : 3.125;
      if (gathered4) stack().weight_traffic_bytes = 0.5;
    }
  }

  // Rows before 26.08 do not say what the launch scripts of their release set (Megatron-Bridge, scripts/performance:
  // perf_plugins.py of v0.3 and v0.4, utils/executors.py of v0.5).
  bool expandable() const {
    if (run_.source != "mbridge" || run_.release.empty()) return false;
    const std::string& release = run_.release;
    const auto device = [&](const char* name) { return run_.gpu.starts_with(name); };
    const auto model = [&](const char* name) { return run_.model.name.find(name) != std::string::npos; };
    const bool deepseek = model("DeepSeek-V3"), largest = model("405B");
    if (release >= "26.06") return !(settings_.megatron_fsdp.value_or(false) && model("Llama"));
    if (release >= "26.04") return (deepseek && !device("GB300")) || (largest && device("GB"));
    if (release >= "26.02") return (deepseek && device("H100")) || (largest && device("GB200"));
    return release == "25.11" && largest && device("GB200");
  }

  void overlap() {
    using cost::DataOverlap;
    const bool gradients = settings_.overlap_gradients.value_or(true);
    const bool weights = settings_.overlap_weights.value_or(true);
    stack().data_overlap = gradients || weights ? DataOverlap::buckets : DataOverlap::none;
    if (gradients != weights) miss(gradients ? "gather of weights exposed" : "reduction of gradients exposed");
    if (settings_.megatron_fsdp.value_or(false)) stack().data_overlap = DataOverlap::fsdp;
    if (settings_.overlap_tensor) stack().tensor_overlap = *settings_.overlap_tensor;
    for (const auto& word : kContextWords) {
      if (settings_.context_exchange == word.text) stack().context_exchange = {word.value};
    }
  }

  void kernels() {
    if (!settings_.loss.empty()) stack().loss = cost::LossKernel::fused;
    if (settings_.unfused_attention) {
      stack().attention = cost::AttentionKernel::unfused;
      stack().deterministic = true;
    }
    stack().fp8_attention = settings_.fp8_attention.value_or(false);
    stack().fp8_head = settings_.fp8_head.value_or(false);
  }

  void experts() {
    stack().expert_overlap = settings_.overlap_experts.value_or(false);
    stack().shared_expert_overlap = settings_.overlap_shared_experts.value_or(false);
    stack().delay_wgrad = stack().expert_overlap && settings_.delay_weight_gradients.value_or(false);
    stack().fused_router = settings_.router_fusion.value_or(false);
    dispatcher();
    if (settings_.forced_balance.value_or(false)) stack().routing_imbalance = 1;
    if (settings_.overload) {
      stack().routing_imbalance = std::max(1.0, *settings_.overload);
      stack().routing.kind = cost::RoutingKind::overload;
      stack().routing.value = stack().routing_imbalance;
    }
    if (settings_.drop_capacity) stack().routing_imbalance = std::max(1.0, *settings_.drop_capacity);
    if (settings_.rank_capacity.value_or(0) >= 1) stack().rank_capacity = *settings_.rank_capacity;
    const double stash = settings_.stash_on_device.value_or(0);
    if (stash >= 1 && stash <= stack().rank_capacity) stack().paged_stash = stash;
    if (settings_.grouped_mlp.value_or(false)) {
      stack().routing.rows = 256;
      stack().fused_experts = true;
    }
  }

  void dispatcher() {
    cost::DispatchRule& rule = stack().dispatch;
    rule.dispatcher = cost::find_dispatcher(settings_.dispatcher).value_or(rule.dispatcher);
    rule.multiprocessors = static_cast<int>(std::clamp<std::int64_t>(settings_.dispatcher_sms.value_or(0), 0, 1024));
    if (!settings_.dispatcher.empty() && settings_.dispatcher != to_string(rule.dispatcher)) {
      miss("dispatcher " + settings_.dispatcher);
    }
  }

  void host() {
    stack().graph_scopes = launch::graph_scopes(settings_.graphs, settings_.graph_scopes);
    // Megatron has whole layers there without a pipeline only.
    if (settings_.offloaded_layers.value_or(0) > 0 && run_.pp.value_or(1) > 1) miss("activations kept on the host");
  }

  cost::SoftwareStack& stack() { return made_.stack; }
  void miss(std::string name) { made_.not_expressed.push_back(std::move(name)); }

  const PublishedRun& run_;
  const Settings& settings_;
  Software made_;
};

}  // namespace

Software megatron_with_settings(const PublishedRun& run) { return Translation(run).result(); }

}  // namespace nest::accuracy
