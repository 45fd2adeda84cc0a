#include "cost/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/real.h"
#include "base/text.h"
#include "cost/facts.h"
#include "cost/imbalance.h"
#include "cost/offload.h"
#include "cost/profile.h"
#include "cost/rates.h"
#include "model/count.h"
#include "model/training.h"
#include "nest/interval.h"

namespace nest::cost {
namespace {

void check_arithmetic(const cluster::Device& device, Precision precision) {
  if (peak_flops_per_s(device, precision) > 0) return;
  std::vector<std::string> allowed;
  for (const auto& word : kPrecisionWords) {
    if (peak_flops_per_s(device, word.value) > 0) allowed.emplace_back(word.text);
  }
  throw InputError(fmt::format("precision {}: {} has no such arithmetic; it has {}", to_string(precision), device.name,
                               join_words(allowed)));
}

}  // namespace

Precision parse_precision(std::string_view text) {
  const std::string wanted = to_lower(text);
  std::vector<std::string> names;
  for (const auto& word : kPrecisionWords) {
    if (wanted == word.text) return word.value;
    names.emplace_back(word.text);
  }
  throw InputError(fmt::format("precision \"{}\" is not known; allowed are {}{}", clip(text, 40), join_words(names),
                               did_you_mean(wanted, names)));
}

Storage storage_of(const Job& job) {
  return facts_of(job.run.precision).element_bytes < 2 ? job.stack.storage : Storage::bf16;
}

model::Implementation implementation_of(const Job& job) {
  model::Implementation implementation;
  implementation.stack = job.stack.kernels;
  implementation.flash_attention = job.stack.attention != AttentionKernel::unfused;
  implementation.dropout = job.stack.dropout;
  implementation.activation_bytes = facts_of(job.run.precision).activation_bytes;
  implementation.sequence = job.run.sequence;
  implementation.shared_expert_overlap = job.stack.shared_expert_overlap;
  implementation.mtp_layers = job.run.mtp_layers;
  const StorageFacts storage = facts_of(storage_of(job));
  implementation.kept_input_bytes = storage.input_bytes;
  implementation.kept_attention_bytes = job.stack.fp8_attention ? storage.attention_bytes : 0;
  return implementation;
}

model::Implementation timed_implementation(const Job& job) {
  model::Implementation implementation = implementation_of(job);
  // The fused graph is Megatron's; only its padded vocabulary is a habit that other stacks do not share.
  const bool padded = job.stack.kernels == model::Stack::megatron && job.stack.padded_vocabulary;
  implementation.stack = padded ? model::Stack::megatron : model::Stack::plain;
  return implementation;
}

namespace {

Job job_without_model(const Run& run, std::int64_t default_sequence, const SoftwareStack& stack,
                      const cluster::Cluster& cluster) {
  check_arithmetic(cluster.device, run.precision);
  Job job;
  job.run = run;
  if (job.run.sequence == 0) job.run.sequence = default_sequence;
  job.run.stack = stack.name;
  job.stack = stack;
  job.cluster = cluster;
  return job;
}

constexpr double kLeastRisk = 1e-4, kMostRisk = 0.5;

// "1%" or "0.01".
std::optional<double> read_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = real_from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return percent ? value / 100 : value;
}

// What the run says of it takes the place of what the stack says.
void apply_routing(Job& job) {
  if (job.run.routing.empty()) return;
  set_routing(job.run.routing, job.stack.routing);
  const auto& kinds = job.model.kinds;
  if (std::any_of(kinds.begin(), kinds.end(), [](const model::Layer& layer) { return layer.experts > 0; })) return;
  throw InputError(fmt::format("{}: {} has no experts", option("routing"), job.model.architecture.name));
}

// The margin of the stack, or one that leaves this risk by the stack's spread.
void apply_risk(Job& job) {
  if (job.run.oom_risk.empty()) return;
  const std::optional<double> risk = read_share(job.run.oom_risk);
  if (!risk || !(*risk >= kLeastRisk && *risk <= kMostRisk)) {
    throw InputError(fmt::format("{}: \"{}\" is no probability; allowed is 0.01% … 50%", option("oom_risk"),
                                 clip(job.run.oom_risk, 40)));
  }
  job.stack.memory_margin = margin_for_risk(*risk, job.stack.memory_spread);
}

void name_model(Job& job) {
  job.title = job.model.architecture.name;
  job.parameters = model::count_parameters(job.model).total;
}

// DeepEP's public builds know hosts that are joined by a network, no racks of several hosts.
void check_dispatcher(const Job& job) {
  const auto& kinds = job.model.kinds;
  const bool experts = std::any_of(kinds.begin(), kinds.end(), [](const auto& kind) { return kind.experts > 0; });
  if (!experts || job.stack.dispatch.dispatcher != Dispatcher::deepep || cluster::devices_per_tray(job.cluster) == 0)
    return;
  throw InputError(fmt::format(
      "{}: dispatcher deepep does not run on racks of several hosts ({}); alltoall, allgather and hybridep do",
      job.stack.name, job.cluster.name));
}

void check_offload(const Job& job) {
  const std::int64_t percent = job.run.optimizer_offload;
  if (percent < 0 || percent > 100) {
    throw InputError(
        fmt::format("{}: {} is out of range; allowed is 0 … 100 percent", option("optimizer_offload"), percent));
  }
  if (percent == 0) return;
  if (const std::string why = refuse_offload(job); !why.empty()) {
    throw InputError(fmt::format("{}: {}", option("optimizer_offload"), why));
  }
}

}  // namespace

Job make_job(model::Model model, model::Model fused_model, const Run& run, const SoftwareStack& stack,
             const cluster::Cluster& cluster) {
  if (run.mtp_layers > 0) {
    throw InputError(option("mtp_layers") + ": a model that was read from a graph has the layers that it has");
  }
  Job job = job_without_model(run, model.architecture.default_sequence, stack, cluster);
  job.model = std::move(model);
  job.fused_model = std::move(fused_model);
  model::apply_training(model::read_training(run.freeze, run.lora), job.model);
  NEST_CHECK(job.model.layers == job.fused_model.layers, "both models have the same chain of layers");
  apply_routing(job);
  apply_risk(job);
  name_model(job);
  check_dispatcher(job);
  check_offload(job);
  return job;
}

Job make_job(const model::Architecture& architecture, const Run& run, const SoftwareStack& stack,
             const cluster::Cluster& cluster) {
  if (const std::string why = model::refuse_mtp(architecture, run.mtp_layers); !why.empty()) {
    throw InputError(fmt::format("{} {}: {}", option("mtp_layers"), run.mtp_layers, why));
  }
  Job job = job_without_model(run, architecture.default_sequence, stack, cluster);
  model::Implementation implementation = implementation_of(job);
  job.model = model::build_model(architecture, implementation);
  implementation.stack = model::Stack::megatron;
  job.fused_model = model::build_model(architecture, implementation);
  const model::Training training = model::read_training(run.freeze, run.lora);
  for (model::Model* model : {&job.model, &job.fused_model}) model::apply_training(training, *model);
  NEST_CHECK(job.model.layers.size() == job.fused_model.layers.size(), "all stacks have the same chain of layers");
  apply_routing(job);
  apply_risk(job);
  name_model(job);
  check_dispatcher(job);
  check_offload(job);
  return job;
}

Plan empty_plan(const Job& job) {
  const model::Architecture& architecture = job.model.architecture;
  Plan plan;
  plan.model = {architecture.name, job.title, architecture.family, job.parameters, architecture.document};
  plan.cluster = {job.cluster.name, job.cluster.device.name, job.cluster.devices, job.cluster.document};
  plan.stack = write_stack(job.stack);
  if (job.profile) plan.profile = job.profile->document;
  plan.run = job.run;
  plan.run.stack = job.stack.name;
  plan.device_memory_bytes = job.cluster.device.memory_bytes;
  return plan;
}

}  // namespace nest::cost
