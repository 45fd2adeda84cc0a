#include "cost/job.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cost/rates.h"

namespace nest {
namespace {

struct Named {
  ComputePrecision precision;
  const char* name;
};
constexpr std::array kPrecisionNames = {Named{ComputePrecision::bf16, "bf16"}, Named{ComputePrecision::fp16, "fp16"},
                                        Named{ComputePrecision::fp8, "fp8"}, Named{ComputePrecision::fp4, "fp4"},
                                        Named{ComputePrecision::fp32, "fp32"}};

void check_arithmetic(const Device& device, ComputePrecision precision) {
  if (peak_flops_per_s(device, precision) > 0) return;
  std::vector<std::string> allowed;
  for (const Named& named : kPrecisionNames) {
    if (peak_flops_per_s(device, named.precision) > 0) allowed.emplace_back(named.name);
  }
  throw InputError(fmt::format("precision {}: {} has no such arithmetic; it has {}", to_string(precision), device.name,
                               join_words(allowed)));
}

}  // namespace

ComputePrecision parse_precision(std::string_view text) {
  const std::string wanted = to_lower(text);
  std::vector<std::string> names;
  for (const Named& named : kPrecisionNames) {
    if (wanted == named.name) return named.precision;
    names.emplace_back(named.name);
  }
  throw InputError(fmt::format("precision \"{}\" is not known; allowed are {}{}", clip(text, 40), join_words(names),
                               did_you_mean(wanted, names)));
}

const char* to_string(ComputePrecision precision) {
  for (const Named& named : kPrecisionNames) {
    if (named.precision == precision) return named.name;
  }
  return "?";
}

const char* to_string(Optimizer optimizer) { return optimizer == Optimizer::adam ? "adam" : "sgd"; }

Implementation implementation_of(const Job& job) {
  Implementation implementation;
  implementation.stack = job.stack.kernels;
  implementation.flash_attention = job.stack.attention != AttentionKernel::unfused;
  implementation.dropout = job.stack.dropout;
  implementation.activation_bytes = job.precision == ComputePrecision::fp32 ? 4 : 2;
  implementation.sequence = job.run.sequence;
  implementation.shared_expert_overlap = job.stack.shared_expert_overlap;
  implementation.context_all_to_all = job.stack.context_all_to_all;
  return implementation;
}

Implementation timed_implementation(const Job& job) {
  Implementation implementation = implementation_of(job);
  // The fused graph is Megatron's; only its padded vocabulary is a habit that other stacks do not share.
  const bool padded = job.stack.kernels == Stack::megatron && job.stack.padded_vocabulary;
  implementation.stack = padded ? Stack::megatron : Stack::plain;
  return implementation;
}

namespace {

Job job_without_model(const Run& run, std::int64_t default_sequence, const SoftwareStack& stack,
                      ComputePrecision precision, Optimizer optimizer, const Cluster& cluster) {
  check_arithmetic(cluster.device, precision);
  Job job;
  job.run = run;
  if (job.run.sequence == 0) job.run.sequence = default_sequence;
  job.run.precision = to_string(precision);
  job.run.stack = stack.name;
  job.stack = stack;
  job.precision = precision;
  job.optimizer = optimizer;
  job.cluster = cluster;
  return job;
}

}  // namespace

Job make_job(Model model, Model fused_model, const Run& run, const SoftwareStack& stack, ComputePrecision precision,
             Optimizer optimizer, const Cluster& cluster) {
  Job job = job_without_model(run, model.architecture.default_sequence, stack, precision, optimizer, cluster);
  job.model = std::move(model);
  job.fused_model = std::move(fused_model);
  NEST_CHECK(job.model.layers == job.fused_model.layers, "both models have the same chain of layers");
  return job;
}

Job make_job(const Architecture& architecture, const Run& run, const SoftwareStack& stack, ComputePrecision precision,
             Optimizer optimizer, const Cluster& cluster) {
  Job job = job_without_model(run, architecture.default_sequence, stack, precision, optimizer, cluster);
  Implementation implementation = implementation_of(job);
  job.model = build_model(architecture, implementation);
  implementation.stack = Stack::megatron;
  job.fused_model = build_model(architecture, implementation);
  NEST_CHECK(job.model.layers.size() == job.fused_model.layers.size(), "all stacks have the same chain of layers");
  return job;
}

}  // namespace nest
