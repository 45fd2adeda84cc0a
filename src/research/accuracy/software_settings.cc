// Settings of Megatron-Core and Megatron-Bridge -> facts of a stack.
#include <algorithm>

#include "accuracy/hardware.h"
#include "accuracy/software.h"

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
    if (settings_.optimizer.find("muon") != std::string::npos) miss("Muon");
    if (settings_.offloaded_optimizer.value_or(0) > 0) miss("optimizer state on the host");
    weights();
    if (recipe_mentions(settings_, "fp8")) miss("inputs of matrix products kept in 8 bits");
    if (recipe_mentions(settings_, "fp4")) miss("inputs of matrix products kept in 4 bits");
    stack().expandable_segments = settings_.expandable_segments.value_or(expandable());
    stack().memory_margin = 0.02;  // as the presets of Megatron-Bridge
    stack().offloaded_layers =
        static_cast<int>(std::clamp<std::int64_t>(settings_.offloaded_layers.value_or(0), 0, 1000));
  }

  // Copies of the weights of linear layers that are there at once, and what is gathered.
  void weights() {
    const bool gathered8 = settings_.gather_fp8.value_or(false), gathered4 = settings_.gather_fp4.value_or(false);
    if (recipe_mentions(settings_, "per tensor")) {
      const double copies = run_.gpu.starts_with("H") ? 2 : 1;  // Hopper's products need the transpose as well
      stack().weight_bytes = gathered8 ? copies : 2 + copies;
      if (gathered8) stack().weight_traffic_bytes = 1;
    } else if (recipe_mentions(settings_, "mxfp8")) {
      stack().weight_bytes = gathered8 ? 2.0625 : 4.0625;  // gathers bf16 (param_and_grad_buffer.py)
    } else if (recipe_mentions(settings_, "fp4")) {
      stack().weight_bytes = gathered4 ? 1.125 : 3.125;
      if (gathered4) stack().weight_traffic_bytes = 0.5;
    }
  }

  // Rows before 26.08 do not say what the launch scripts of their release set (Megatron-Bridge, scripts/performance:
  // perf_plugins.py of v0.3 and v0.4, utils/executors.py of v0.5).
  bool expandable() const {
    const std::string& id = run_.id;
    const auto mentions = [&](const char* word) { return id.find(word) != std::string::npos; };
    const bool deepseek = mentions("DeepSeekV3"), largest = mentions("405B"), rack = mentions("-GB200-");
    if (!id.starts_with("mbridge-2") || id.size() < 13) return false;
    const std::string release = id.substr(8, 5);
    if (release >= "26.06") return !(settings_.megatron_fsdp.value_or(false) && mentions("LLAMA"));
    if (release >= "26.04") return (deepseek && !mentions("-GB300-")) || (largest && (rack || mentions("-GB300-")));
    if (release >= "26.02") return (deepseek && mentions("-H100-")) || (largest && rack);
    return release == "25.11" && largest && rack;
  }

  void overlap() {
    using cost::DataOverlap;
    const bool gradients = settings_.overlap_gradients.value_or(true);
    const bool weights = settings_.overlap_weights.value_or(true);
    stack().data_overlap = gradients || weights ? DataOverlap::buckets : DataOverlap::none;
    if (gradients != weights) miss(gradients ? "gather of weights exposed" : "reduction of gradients exposed");
    if (settings_.megatron_fsdp.value_or(false)) stack().data_overlap = DataOverlap::fsdp;
    if (settings_.overlap_tensor) stack().tensor_overlap = *settings_.overlap_tensor;
    stack().context_all_to_all = settings_.context_exchange == "a2a";
  }

  void kernels() {
    if (!settings_.loss.empty()) stack().loss = cost::LossKernel::fused;
    if (settings_.unfused_attention) {
      stack().attention = cost::AttentionKernel::unfused;
      stack().deterministic = true;
    }
    stack().fp8_attention = settings_.fp8_attention.value_or(false);
    if (settings_.fp8_head.value_or(false)) miss("head in 8 bits");
  }

  void experts() {
    stack().expert_overlap = settings_.overlap_experts.value_or(false);
    stack().shared_expert_overlap = settings_.overlap_shared_experts.value_or(false);
    stack().delay_wgrad = stack().expert_overlap && settings_.delay_weight_gradients.value_or(false);
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
      miss("fused grouped MLP");
    }
  }

  void dispatcher() {
    using cost::Dispatcher;
    cost::DispatchRule& rule = stack().dispatch;
    for (const Dispatcher known :
         {Dispatcher::alltoall, Dispatcher::allgather, Dispatcher::deepep, Dispatcher::hybridep, Dispatcher::ncclep}) {
      if (settings_.dispatcher == to_string(known)) rule.dispatcher = known;
    }
    rule.multiprocessors = static_cast<int>(std::clamp<std::int64_t>(settings_.dispatcher_sms.value_or(0), 0, 1024));
    if (!settings_.dispatcher.empty() && settings_.dispatcher != to_string(rule.dispatcher)) {
      miss("dispatcher " + settings_.dispatcher);
    }
  }

  void graphs() {
    using cost::GraphScope;
    std::vector<GraphScope>& scopes = stack().graph_scopes;
    scopes.clear();
    if (settings_.graphs.empty() || settings_.graphs == "none") return;
    if (settings_.graphs == "full_iteration") scopes = {GraphScope::full};
    for (const std::string& scope : settings_.graph_scopes) {
      if (scope == "full_iteration") scopes = {GraphScope::full};
      if (scope == "attn") scopes.push_back(GraphScope::attention);
      if (scope == "mlp") scopes.push_back(GraphScope::feed_forward);
      if (scope == "moe_router") scopes.push_back(GraphScope::router);
      if (scope == "moe_preprocess") scopes.push_back(GraphScope::preprocess);
    }
    // Whole layers, or not stated: what static shapes allow.
    if (scopes.empty() && settings_.graph_scopes != std::vector<std::string>{"mamba"}) {
      scopes = {GraphScope::attention, GraphScope::feed_forward, GraphScope::router, GraphScope::preprocess};
    }
  }

  void host() {
    graphs();
    if (settings_.offloaded_layers.value_or(0) > 0) miss("activations kept on the host");
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
