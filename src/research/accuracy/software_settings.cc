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
      stack().optimizer_bytes = bytes_of_format(settings_.main_params, 4) + bytes_of_format(settings_.first_moment, 4) +
                                bytes_of_format(settings_.second_moment, 4);
    }
    if (settings_.optimizer.find("muon") != std::string::npos) miss("Muon");
    if (settings_.offloaded_optimizer.value_or(0) > 0) miss("optimizer state on the host");
    if (settings_.gather_fp8.value_or(false) && recipe_mentions(settings_, "per tensor")) {
      stack().weight_traffic_bytes = 1;  // one copy in 8 bits; MXFP8 gathers bf16 (param_and_grad_buffer.py)
      miss("weights kept in 8 bits");
    }
    if (settings_.gather_fp4.value_or(false)) {
      stack().weight_traffic_bytes = 0.5;
      miss("weights kept in 4 bits");
    }
    if (recipe_mentions(settings_, "fp8")) miss("inputs of matrix products kept in 8 bits");
    if (recipe_mentions(settings_, "fp4")) miss("inputs of matrix products kept in 4 bits");
    if (settings_.expandable_segments.value_or(false)) miss("expandable segments");
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
    if (settings_.stash_on_device) miss("paged stash");
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
