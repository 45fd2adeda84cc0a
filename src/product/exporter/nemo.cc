#include "exporter/nemo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "cost/constants.h"
#include "cost/group_time.h"
#include "cost/messages.h"
#include "exporter/framework.h"
#include "exporter/gpt.h"
#include "exporter/megatron_stack.h"
#include "exporter/model_facts.h"
#include "exporter/pipeline_layout.h"
#include "launch/stack_options.h"

namespace nest::exporter {
namespace {

// Keys differ between the two only in their beginnings.
struct Prefixes {
  std::string parallel, model, batch, sequence, ddp, order;
};

Prefixes prefixes_of(NemoForm form) {
  if (form == NemoForm::bridge) return {"model.", "model.", "train.", "dataset.seq_length", "ddp.", "dist."};
  return {"trainer.strategy.", "model.config.",         "data.",
          "data.seq_length",   "trainer.strategy.ddp.", "trainer.strategy."};
}

class Overrides {
 public:
  Overrides(const ExportTask& task, NemoForm form, NemoExport& out)
      : task_(task), form_(form), keys_(prefixes_of(form)), out_(out) {}

  void run() {
    if (task_.with_model) add_model();
    add_parallel();
    add_pipeline();
    add_recomputation();
    add_data_parallel();
    add_layers();
    add_state();
    add(keys_.batch + "micro_batch_size", task_.strategy.micro_batch);
    add(keys_.batch + "global_batch_size", task_.job.run.global_batch);
    add(keys_.sequence, task_.job.run.sequence);
    form_ == NemoForm::bridge ? add_bridge() : add_nemo2();
  }

 private:
  void add(const std::string& key, const std::string& value) { out_.overrides.emplace_back(key, value); }
  void add(const std::string& key, std::int64_t value) { add(key, fmt::format("{}", value)); }
  void add(const std::string& key, bool value) { add(key, std::string(value ? "true" : "false")); }
  void text(const std::string& key, const std::string& value) { add(key, override_value(value)); }

  // A list of words: bare in Hydra's grammar, quoted for NeMo 2, which evaluates Python (nemo_run/cli/cli_parser.py).
  std::string words(const std::vector<std::string>& list) const {
    const char* quote = form_ == NemoForm::nemo2 ? "'" : "";
    std::string joined;
    for (const std::string& word : list)
      joined += fmt::format("{}{}{}{}", joined.empty() ? "" : ",", quote, word, quote);
    return "[" + joined + "]";
  }

  void add_model() {
    GptModel gpt;
    const model::Architecture& architecture = task_.job.model.architecture;
    if (const std::string reason = describe_gpt(architecture, gpt); !reason.empty()) {
      throw InputError(
          fmt::format("nemo: no GPT recipe builds {}: {}; --no-model leaves its sizes out", architecture.name, reason));
    }
    const std::string& m = keys_.model;
    add(m + "num_layers", gpt.layers);
    if (task_.job.run.mtp_layers > 0) add(m + "mtp_num_layers", task_.job.run.mtp_layers);
    add(m + "hidden_size", gpt.hidden);
    add(m + "ffn_hidden_size", gpt.width);
    add(m + "num_attention_heads", gpt.heads);
    add(m + "num_query_groups", gpt.kv_heads);
    add(m + "kv_channels", gpt.latent ? gpt.latent->value_dim : gpt.head_dim);
    add(m + "add_bias_linear", gpt.linear_bias);
    add(m + "share_embeddings_and_output_weights", gpt.tied);
    if (gpt.gated) {
      add(m + "gated_linear_unit", true);
      if (form_ == NemoForm::bridge) {
        text(m + "activation_func", "silu");
      } else {
        out_.notes.emplace_back("activation_func is the recipe's own: NeMo 2 parses no functions");
      }
    }
    const bool dropout = task_.job.stack.dropout;
    add(m + "attention_dropout", fmt::format("{}", dropout ? gpt.attention_dropout : 0.0));
    add(m + "hidden_dropout", fmt::format("{}", dropout ? gpt.dropout : 0.0));
    if (gpt.experts) add_experts(*gpt.experts);
    FactOptions carried = nemo_facts(read_model_facts(architecture), gpt, form_ == NemoForm::nemo2);
    for (const auto& [field, value] : carried.options) add(m + field, value);
    for (std::string& note : carried.notes) out_.notes.push_back(std::move(note));
    out_.notes.emplace_back("start from the recipe of this model: sizes are repeated here, its other settings are not");
  }

  void add_experts(const GptExperts& experts) {
    const std::string& m = keys_.model;
    add(m + "num_moe_experts", experts.experts);
    add(m + "moe_router_topk", experts.top_k);
    add(m + "moe_ffn_hidden_size", experts.width);
    if (layer_frequency(experts.sparse).empty()) {
      add(m + "moe_layer_freq", std::int64_t{1});
    } else {
      std::vector<int> layers;
      for (const bool sparse : experts.sparse) layers.push_back(sparse ? 1 : 0);
      add(m + "moe_layer_freq", fmt::format("[{}]", fmt::join(layers, ",")));
    }
    add(m + "moe_grouped_gemm", true);
  }

  void add_parallel() {
    const Split& split = task_.strategy.split;
    const std::string& p = keys_.parallel;
    add(p + "tensor_model_parallel_size", split.tp);
    add(p + "pipeline_model_parallel_size", task_.strategy.pp);
    add(p + "context_parallel_size", split.cp);
    add(p + "sequence_parallel", split.sp);
    if (has_experts(task_.job.model)) {
      add(p + "expert_model_parallel_size", split.ep);
      add(p + "expert_tensor_parallel_size", split.expert_tp());
    }
    if (split.cp > 1) text(keys_.model + "cp_comm_type", to_string(split.cp_comm));
    if (split.cp_inner > 1) {
      add(keys_.model + "hierarchical_context_parallel_sizes",
          fmt::format("[{}, {}]", split.cp_inner, split.cp / split.cp_inner));
    }
  }

  void add_pipeline() {
    const Strategy& s = task_.strategy;
    const std::string& p = keys_.parallel;
    if (s.virtual_stages > 1) {
      add(p + "virtual_pipeline_model_parallel_size", s.virtual_stages);
    } else {
      add(p + "virtual_pipeline_model_parallel_size", std::string("null"));
    }
    if (s.group != 0) add(p + "microbatch_group_size_per_vp_stage", s.group);
    if (cost::sends_of(task_.job.stack, s).flush) add(keys_.model + "overlap_p2p_comm_warmup_flush", true);
    if (s.pp > 1 && !task_.job.stack.aligned_gradients) {
      if (form_ == NemoForm::bridge) {
        add("dist.align_grad_reduce", false);
      } else {
        out_.notes.emplace_back(
            "stages were modelled to reduce gradients each in its own time, which NeMo 2 cannot be told");
      }
    }
    // A recipe may own a layout, which then must be replaced or cleared.
    const bool even = s.pp == 1 || is_even_cut(task_.job.model, task_.stages, s.virtual_stages);
    text(p + "pipeline_model_parallel_layout",
         even ? "null"
              : pipeline_layout(chunk_blocks(task_.job.model, task_.stages, s.virtual_stages),
                                task_.job.run.mtp_layers));
  }

  void add_recomputation() {
    const std::vector<StageBlocks> blocks = stage_blocks(task_.job.model, task_.stages);
    Recomputation mode;
    for (std::size_t s = 0; s < blocks.size(); ++s) {
      if (blocks[s].blocks > 0) mode = task_.stages[s].recompute;
    }
    // What the recipe says of it must not survive: Megatron refuses a method beside modules.
    const std::string& m = keys_.model;
    const bool modules = mode.some_modules(), whole = mode != Recompute::none && !modules;
    text(m + "recompute_granularity", mode == Recompute::none ? "null" : modules ? "selective" : "full");
    add(m + "recompute_modules", modules ? words(recompute_modules(task_.job.stack, mode)) : std::string("null"));
    text(m + "recompute_method", !whole ? "null" : mode.kind == Recompute::block ? "block" : "uniform");
    add(m + "recompute_num_layers",
        whole ? fmt::format("{}", std::max<std::int64_t>(1, mode.layers)) : std::string("null"));
  }

  void add_data_parallel() {
    const Sharding sharding = sharding_of(task_.strategy, task_.stages.front());
    const cost::SoftwareStack& stack = task_.job.stack;
    const std::string& d = keys_.ddp;
    add(d + "use_distributed_optimizer", is_sharded());
    add(d + "overlap_grad_reduce", overlaps_gradients());
    add(d + "overlap_param_gather", overlaps_gradients() && is_sharded());
    add(d + "grad_reduce_in_fp32", stack.gradient_traffic_bytes >= 4);
    if (sharding.zero >= 2) {
      add(d + "use_megatron_fsdp", true);
      if (form_ == NemoForm::bridge) {
        add("++" + d + "megatron_fsdp_main_grads_dtype", torch_type(stack.gradient_bytes < 4 ? "bfloat16" : "float32"));
        add("++" + d + "megatron_fsdp_grad_comm_dtype",
            torch_type(stack.gradient_traffic_bytes < 4 ? "bfloat16" : "float32"));
      }
      text(d + "data_parallel_sharding_strategy", sharding.zero == 2 ? "optim_grads" : "optim_grads_params");
      if (const char* const buffers = fsdp_buffers(task_)) {
        std::string field = std::string(buffers).substr(2);
        std::replace(field.begin(), field.end(), '-', '_');
        if (form_ == NemoForm::nemo2 && field != "fsdp_double_buffer") {
          out_.notes.emplace_back(
              "memory is modelled with buffers of Megatron-FSDP for layers of several kinds, which came after "
              "Megatron-Core 0.14");
        } else {
          add(d + field, true);
        }
      }
    }
    const std::int64_t instances = sharding.zero > 0 ? groups::dense_replicas(task_.strategy) / sharding.degree : 1;
    if (instances > 1) add(keys_.ddp + "num_distributed_optimizer_instances", instances);
    if (sharding.outer) text(d + "outer_dp_sharding_strategy", "optim");
    add(keys_.order + "use_tp_pp_dp_mapping", task_.order == groups::RankOrder::replicas_last);
    if (sharding.zero < 2 && !overlaps_experts(task_) && (task_.strategy.split.tp > 1 || task_.strategy.split.cp > 1) &&
        needs_one_connection(task_.job.cluster.device)) {
      out_.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
    }
  }

  // Megatron's options of layers are fields of the model.
  void add_layers() {
    std::vector<std::string> newer;
    for (const LaunchOption& option : layer_options(task_)) {
      // NeMo 2 is of before the others.
      constexpr std::array kOlder = {"--moe-token-dispatcher-type", "--moe-router-fusion",
                                     "--moe-shared-expert-overlap", "--moe-expert-capacity-factor",
                                     "--moe-pad-expert-input-to-capacity"};
      if (option.name == "--fp8-dot-product-attention") continue;  // a field of what says the precision
      if (form_ == NemoForm::nemo2 && std::find(kOlder.begin(), kOlder.end(), option.name) == kOlder.end()) {
        newer.push_back(option.name.substr(2));
        continue;
      }
      std::string field = option.name.substr(2);
      std::replace(field.begin(), field.end(), '-', '_');
      if (option.name == "--cuda-graph-modules" || option.name == "--offload-modules") {
        add(keys_.model + field, words(option.values));
      } else if (option.values.empty()) {
        add(keys_.model + field, true);
      } else {
        text(keys_.model + field, option.values.front());
      }
    }
    if (!newer.empty()) {
      out_.notes.push_back(
          fmt::format("modelled with {}, which is not written: it came after Megatron-Core 0.14", join_words(newer)));
    }
    for (auto& variable : stack_environment(task_)) out_.environment.push_back(std::move(variable));
    for (std::string& note : stack_notes(task_)) out_.notes.push_back(std::move(note));
  }

  // As one object: a recipe may have none, below which nothing can be set, and what its object does not say is decided
  // by Megatron-Bridge, over `ddp` (training/comm_overlap.py). The recipe's buffers are for another plan's sizes.
  void add_overlap() {
    const cost::SoftwareStack& stack = task_.job.stack;
    const Strategy& s = task_.strategy;
    std::string fields = "_target_:megatron.bridge.training.comm_overlap.CommOverlapConfig";
    const auto field = [&](const char* name, const std::string& value) {
      fields.append(",").append(name).append(":").append(value);
    };
    const auto toggle = [&](const char* name, bool on) { field(name, on ? "true" : "false"); };
    toggle("tp_comm_overlap", overlaps_tensor(task_));
    field("tp_comm_overlap_cfg", "null");
    if (s.virtual_stages > 1) {
      toggle("overlap_p2p_comm", stack.pipeline_overlap);
      toggle("batch_p2p_comm", !stack.pipeline_overlap);
    }
    toggle("overlap_grad_reduce", overlaps_gradients());
    toggle("overlap_param_gather", overlaps_gradients() && is_sharded());
    const bool defers = cost::defers_head(stack, s);
    toggle("defer_embedding_wgrad_compute", defers);
    if (defers) field("wgrad_deferral_limit", fmt::format("{}", cost::constants::kDeferredMicroBatches));
    if (has_experts(task_.job.model)) {
      const bool pairs = overlaps_experts(task_);
      toggle("overlap_moe_expert_parallel_comm", pairs);
      toggle("delay_wgrad_compute", pairs && stack.delay_wgrad);
    }
    add("++comm_overlap", "{" + fields + "}");
  }

  bool is_sharded() const {
    return sharding_of(task_.strategy, task_.stages.front()).zero >= 1 || needs_distributed_optimizer(task_);
  }
  bool overlaps_gradients() const {
    return task_.job.stack.data_overlap != cost::DataOverlap::none && has_replicas(task_);
  }

  // A type of torch as Megatron-Bridge instantiates it: a field that is None takes no word for one.
  static std::string torch_type(const char* name) { return fmt::format("{{_target_:torch.{},_call_:false}}", name); }

  void add_bridge() {
    add_optimizer("optimizer.");
    add_overlap();
    add_precision();
  }

  // The kernels and formats that were priced: recipes have their own.
  void add_state() {
    const cost::SoftwareStack& stack = task_.job.stack;
    const std::string& m = keys_.model;
    const bool bridge = form_ == NemoForm::bridge;
    const bool fused = stack.loss == cost::LossKernel::fused && !stack.deterministic;
    add(m + "cross_entropy_loss_fusion", fused);
    if (!fused && !stack.deterministic) {
      out_.notes.push_back(fmt::format(
          "the loss is written as it was modelled, unfused; {}cross_entropy_loss_fusion=true needs less memory", m));
    }
    if (stack.deterministic) add(m + "deterministic_mode", true);
    for (const LaunchOption& option : state_options(task_)) {
      if (option.name == "--attention-backend") {
        bridge ? text(m + "attention_backend", option.values.front())
               : out_.notes.push_back(fmt::format(
                     "attention was modelled with {} kernels (model.config.attention_backend)", option.values.front()));
      } else if (option.name == "--no-check-for-nan-in-loss-and-grad") {
        add(keys_.ddp + "check_for_nan_in_grad", false);
        if (bridge) add("rerun_state_machine.check_for_nan_in_loss", false);
      } else if (option.name.ends_with("-dtype")) {
        add_type(option);
      }
    }
  }

  // Moments and gradients of the precision-aware optimizer. Megatron keeps moments of 8 bits in torch.uint8.
  void add_type(const LaunchOption& option) {
    const std::string& format = option.values.front();
    if (form_ == NemoForm::nemo2) {
      out_.notes.push_back(
          fmt::format("modelled with {} {}, which its recipe must set in optim.config", option.name, format));
      return;
    }
    std::string field = option.name.substr(2);
    std::replace(field.begin(), field.end(), '-', '_');
    if (format == "fp8") {
      add("++optimizer." + field, torch_type("uint8"));
    } else {
      text("optimizer." + field, format);
    }
  }

  // One of Megatron-Bridge's recipes of precision where it is what was priced; else an object. It is written over `model`,
  // `optimizer` and `ddp` when training starts (training/mixed_precision.py), so that fields there say nothing.
  void add_precision() {
    const cost::SoftwareStack& stack = task_.job.stack;
    const Precision precision = task_.job.run.precision;
    if (precision == Precision::fp32 || precision == Precision::tf32) return text("mixed_precision", "null");
    const bool wide = stack.gradient_traffic_bytes >= 4;
    if (precision == Precision::bf16 && wide) return text("mixed_precision", "bf16_mixed");
    if (precision == Precision::fp16 && !wide) return text("mixed_precision", "fp16_mixed");
    const bool half = precision == Precision::fp16;
    const std::string type = torch_type(half ? "float16" : "bfloat16");
    std::string fields = fmt::format(
        "_target_:megatron.bridge.training.mixed_precision.MixedPrecisionConfig,{}:true,params_dtype:{},"
        "pipeline_dtype:{},grad_reduce_in_fp32:{}",
        half ? "fp16" : "bf16", type, type, wide);
    for (const auto& [name, value] : narrow_precision()) fields += fmt::format(",{}:{}", name, value);
    add("++mixed_precision", "{" + fields + "}");
  }

  // Fields of both frameworks' classes of precision for 8 and 4 bits.
  std::vector<std::pair<std::string, std::string>> narrow_precision() const {
    const Precision precision = task_.job.run.precision;
    if (precision != Precision::fp8 && precision != Precision::fp4) return {};
    const auto recipe = launch::weight_recipe(precision, task_.job.stack);
    const bool gathered = recipe && recipe->gathered && task_.stages.front().zero >= 1;
    const std::string gathers = gathered ? "true" : "false";
    if (precision == Precision::fp4) return {{"fp4", "e2m1"}, {"fp4_recipe", "nvfp4"}, {"fp4_param_gather", gathers}};
    const std::string name = fp8_recipe(task_.job);
    std::vector<std::pair<std::string, std::string>> fields = {
        {"fp8", name == "mxfp8" ? "e4m3" : "hybrid"}, {"fp8_recipe", name}, {"fp8_param_gather", gathers}};
    if (gathered && name == "mxfp8") fields.emplace_back("reuse_grad_buf_for_mxfp8_param_ag", "true");
    if (task_.job.stack.fp8_attention) fields.emplace_back("fp8_dot_product_attention", "true");
    return fields;
  }

  // Fields of Megatron-Core's OptimizerConfig.
  void add_optimizer(const std::string& prefix) {
    if (task_.job.run.optimizer == Optimizer::muon) text(prefix + "optimizer", "muon");
    for (const LaunchOption& option : state_options(task_)) {
      if (option.name == "--use-precision-aware-optimizer") add(prefix + "use_precision_aware_optimizer", true);
    }
    for (const LaunchOption& option : offload_options(task_)) {
      std::string field = option.name.substr(2);
      std::replace(field.begin(), field.end(), '-', '_');
      add(prefix + field, option.values.empty() ? std::string("true") : option.values.front());
    }
  }

  // Fields of the model, which hold where the recipe has no callback for overlap, and of its plugin for precision.
  void add_nemo2() {
    const cost::SoftwareStack& stack = task_.job.stack;
    const Strategy& s = task_.strategy;
    const std::string& m = keys_.model;
    add_optimizer("optim.config.");
    add("optim.config.use_distributed_optimizer", is_sharded());
    if (s.virtual_stages > 1) {
      add(m + "overlap_p2p_comm", stack.pipeline_overlap);
      add(m + "batch_p2p_comm", !stack.pipeline_overlap);
    }
    const bool defers = cost::defers_head(stack, s);
    add(m + "defer_embedding_wgrad_compute", defers);
    if (defers) add(m + "wgrad_deferral_limit", static_cast<std::int64_t>(cost::constants::kDeferredMicroBatches));
    if (overlaps_experts(task_)) {
      add(m + "overlap_moe_expert_parallel_comm", true);
      add(m + "delay_wgrad_compute", stack.delay_wgrad);
    }
    const bool narrow = stack.gradient_traffic_bytes < 4;
    if (narrow != (task_.job.run.precision == Precision::fp16)) add("trainer.plugins.grad_reduce_in_fp32", !narrow);
    for (const auto& [name, value] : narrow_precision()) {
      if (name != "fp4_param_gather") text("trainer.plugins." + name, value);
    }
    if (task_.strategy.split.offload != 0) {
      out_.notes.push_back(fmt::format("activations of {} were planned on the host, which NeMo 2 cannot be told",
                                       offload_text(task_.strategy.split.offload)));
    }
    out_.notes.emplace_back("set trainer.num_nodes and trainer.devices to what you start");
    out_.notes.emplace_back(
        "overlap of tensor parallelism is a callback of the recipe, and what the callback decides of other overlap is "
        "written over these fields");
  }

  const ExportTask& task_;
  NemoForm form_;
  Prefixes keys_;
  NemoExport& out_;
};

}  // namespace

NemoExport export_nemo(const ExportTask& task, NemoForm form) {
  NemoExport exported;
  Overrides(task, form, exported).run();
  return exported;
}

std::string override_value(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_/-\\+.$%*@?|").find(c) != std::string_view::npos;
  });
  return plain ? text : "\"" + text + "\"";
}

std::string overrides_text(const NemoExport& exported) {
  std::string text;
  for (const auto& [key, value] : exported.overrides) text.append(key).append("=").append(value).append("\n");
  return text;
}

}  // namespace nest::exporter
