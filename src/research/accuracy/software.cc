#include "accuracy/software.h"

#include <algorithm>
#include <regex>

#include "base/text.h"

namespace nest::accuracy {
namespace {

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* other) { return word == other; });
}

bool mentions(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

// A stack that ships, as it was before Megatron-Core 0.18: all runs are older; the default one when there is none of that
// name.
cost::SoftwareStack shipped(std::string_view name) {
  const auto found = cost::find_stack(name);
  cost::SoftwareStack stack = found ? *found : cost::stack_presets().front();
  stack.forward_sends_block = false;
  return stack;
}

cost::SoftwareStack megatron_deepspeed(const PublishedRun& run) {
  cost::SoftwareStack stack = shipped("megatron-deepspeed");
  const bool wide = mentions(run.precision, "bf16");  // bf16 gradients are reduced and kept in fp32 besides
  stack.gradient_traffic_bytes = wide ? 4 : 2;
  stack.gradient_bytes = wide ? 6 : 2;
  // The published launch scripts of that project set CUDA_LAUNCH_BLOCKING=1.
  stack.blocking_launches = run.source == "bloom";
  return stack;
}

// Megatron-Core as its own tests and simulators' authors run it: nothing tuned.
cost::SoftwareStack plain_megatron(const PublishedRun& run) {
  cost::SoftwareStack stack = shipped(run.source == "mlm" ? "megatron-core-deterministic" : "megatron-core-plain");
  if (run.source == "simumax") {
    stack.loss = cost::LossKernel::fused;
    stack.routing_imbalance = 1;                      // experts are filled to the same capacity
    stack.context_exchange = {ContextExchange::a2a};  // the default of its launcher
  }
  if (run.source == "mlm") stack.dropout = true;
  return stack;
}

cost::SoftwareStack megatron_bridge(const PublishedRun& run) {
  std::smatch release;
  const bool released = std::regex_search(run.id, release, std::regex("^mbridge-([0-9]{2}\\.[0-9]{2})"));
  // Released recipes are tuned; what else the project publishes are functional tests.
  const bool tuned = run.moe() && (released || mentions(run.notes, "CUDA graphs"));
  cost::SoftwareStack stack = shipped(tuned ? "megatron-core-moe" : "megatron-core");
  stack.gradient_bytes = 2;
  stack.loss = cost::LossKernel::fused;
  stack.expert_overlap = tuned && released && release[1].str() >= "26.06" && run.gpu.starts_with("GB");
  const std::string id = to_lower(run.id);
  if (mentions(id, "moonlight") || mentions(id, "deepseek")) {
    stack.moments_bytes = 4;  // in 16 bits each
    stack.shared_expert_overlap = !stack.expert_overlap;
  }
  return stack;
}

// NeMo's performance scripts: gradients are kept in bf16 (grad_reduce_in_fp32 = False) and the loss is one kernel
// (cross_entropy_fusion_impl = "te").
cost::SoftwareStack nemo_performance() {
  cost::SoftwareStack stack = shipped("megatron-core");
  stack.gradient_bytes = 2;
  stack.loss = cost::LossKernel::fused;
  return stack;
}

cost::SoftwareStack torchtitan(const PublishedRun& run) {
  cost::SoftwareStack stack = shipped("fsdp2");
  const std::string id = to_lower(run.id);
  if (mentions(id, "eager")) stack.fused_rowwise = false;
  if (mentions(id, "async")) stack.tensor_overlap = true;
  if (run.source == "automodel") stack.attention = cost::AttentionKernel::native;
  const bool float8 = mentions(run.precision, "fp8") || mentions(run.precision, "float8");
  if (float8 && !mentions(run.precision, "rowwise")) stack.weight_traffic_bytes = 1;
  const std::string words = to_lower(run.notes);
  if (run.tp.value_or(1) > 1) {
    stack.loss = cost::LossKernel::loss_parallel;
  } else if (mentions(words, "compile") && mentions(id, "h200")) {
    stack.loss = cost::LossKernel::compiled;  // a later release: the loss is compiled with the model
  } else {
    stack.loss =
        mentions(words, "eager") || mentions(id, "eager") ? cost::LossKernel::eager_fp32 : cost::LossKernel::unfused;
  }
  return stack;
}

cost::SoftwareStack by_source(const PublishedRun& run) {
  const std::string& source = run.source;
  if (run.software == "transformers") {
    cost::SoftwareStack stack = shipped("pytorch");
    stack.kernels = model::Stack::huggingface;
    stack.gradient_bytes = 2;  // kept in bf16; the optimizer step makes fp32 copies
    return stack;
  }
  if (!run.software.empty()) return shipped(run.software);
  if (is_one_of(source, {"korth", "sc21", "mtnlg", "opt", "alpa"}) || run.id.starts_with("mlm-readme")) {
    return shipped("megatron-2021");
  }
  if (is_one_of(source, {"bloom", "megads"})) return megatron_deepspeed(run);
  if (is_one_of(source, {"simumax", "mlm"})) return plain_megatron(run);
  if (is_one_of(source, {"maxtext", "tpurecipe", "ironwood", "pax"}) ||
      is_one_of(run.settings.framework, {"maxtext", "levanter"})) {
    return shipped("maxtext");
  }
  if (is_one_of(source, {"titan", "fms", "automodel"})) return torchtitan(run);
  if (source == "mpt") {
    cost::SoftwareStack stack = shipped("llm-foundry");
    stack.gradient_traffic_bytes = mentions(run.precision, "amp") ? 4 : 2;
    return stack;
  }
  if (source == "internevo") return shipped("internevo");
  if (source == "nanotron") return shipped("nanotron");
  if (source == "vtrain") return shipped("megatron-deepspeed-profiled");
  if (source == "mbridge") return megatron_bridge(run);
  if (run.zero == 3 && run.pp.value_or(1) == 1) return torchtitan(run);  // sharded weights without a pipeline: FSDP
  if (source == "dgxc") return nemo_performance();
  // Tuned recipes for mixtures capture graphs.
  return shipped(run.moe() ? "megatron-core-moe" : "megatron-core");
}

std::vector<model::Module> modules_of(const std::vector<std::string>& names) {
  std::vector<model::Module> modules;
  for (const std::string& name : names) {
    if (name == "core_attn") modules.push_back(model::Module::core_attention);
    if (name == "mla_up_proj") modules.push_back(model::Module::latent_up);
    if (name == "moe_act") modules.push_back(model::Module::moe_activation);
    if (name == "mlp") modules.push_back(model::Module::feed_forward);
    if (name == "moe") modules.push_back(model::Module::moe);
    if (name == "shared_experts") modules.push_back(model::Module::shared_experts);
    if (name == "layernorm") modules.push_back(model::Module::norm);
  }
  return modules;
}

// Transformer Engine keeps what it quantised, whatever the recipe's scales.
cost::Storage storage_for(const PublishedRun& run) {
  switch (precision_for(run)) {
    case Precision::fp4: return cost::Storage::nvfp4;
    case Precision::fp8: return mentions(run.precision, "mx") ? cost::Storage::mxfp8 : cost::Storage::fp8_tensor;
    default: return cost::Storage::bf16;
  }
}

}  // namespace

Software software_for(const PublishedRun& run) {
  const Settings& settings = run.settings;
  const bool megatron = settings.stated && settings.framework.empty() && run.software.empty();
  Software software = megatron ? megatron_with_settings(run) : Software{by_source(run), Optimizer::adam, 0, {}};
  if (settings.offloaded_activations) software.not_expressed.emplace_back("activations kept on the host");
  const std::vector<model::Module> modules = modules_of(run.recompute_modules);
  cost::SoftwareStack& stack = software.stack;
  if (!megatron && stack.kernels == model::Stack::megatron && stack.memory == cost::MemoryModel::megatron) {
    stack.storage = storage_for(run);
  }
  if (stack.selective == cost::SelectiveKind::modules && !modules.empty()) stack.selective_modules = modules;
  return software;
}

cost::SoftwareStack stack_for(const PublishedRun& run) { return software_for(run).stack; }

Precision precision_for(const PublishedRun& run) {
  const std::string& precision = run.precision;
  // Rows of float8 with one scale per row run no faster than bf16 in the releases that were measured.
  if (mentions(precision, "rowwise")) return Precision::bf16;
  if (mentions(precision, "fp4")) return Precision::fp4;
  if (mentions(precision, "fp8") || mentions(precision, "float8")) return Precision::fp8;
  return mentions(precision, "fp16") ? Precision::fp16 : Precision::bf16;
}

MemoryReading reading_for(const PublishedRun& run) {
  if (is_one_of(run.source, {"simumax", "mlm", "mlmrel", "mbridge", "nemo", "dgxc"})) return MemoryReading::allocated;
  if (is_one_of(run.source, {"titan", "nanotron", "fms"})) return MemoryReading::reserved;
  if (is_one_of(run.source, {"bloom", "internevo", "megads"})) return MemoryReading::outside;
  const std::string words = to_lower(run.notes);
  if (mentions(words, "nvidia-smi")) return MemoryReading::outside;
  if (mentions(words, "reserved")) return MemoryReading::reserved;
  return MemoryReading::allocated;
}

const char* to_string(MemoryReading reading) {
  switch (reading) {
    case MemoryReading::allocated: return "allocated";
    case MemoryReading::reserved: return "reserved";
    case MemoryReading::outside: return "outside";
  }
  return "?";
}

}  // namespace nest::accuracy
