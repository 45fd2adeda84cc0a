#include "load/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cost/default_stack.h"
#include "cost/facts.h"
#include "cost/profile.h"
#include "graph/graph_model.h"
#include "load/catalogue.h"
#include "load/cluster_file.h"
#include "load/fleet.h"
#include "load/input.h"
#include "nest/option.h"

namespace nest::load {
namespace {

constexpr std::int64_t kUsualTokensPerStep = std::int64_t{4} << 20;
constexpr std::int64_t kUsualSamplesPerStep = 1024;

cluster::Cluster of_pool(const cluster::Cluster& pool, std::int64_t devices) {
  if (devices == 0 || devices == pool.devices) return pool;
  if (devices > pool.devices) {
    throw InputError(fmt::format("{}: {} has {}; {} are asked for", option("devices"), clip(pool.name, 60),
                                 format_integer(pool.devices), format_integer(devices)));
  }
  return cluster::resized(pool, devices);
}

cluster::Cluster load_cluster(const Input& input, std::int64_t devices) {
  const std::string& name = input.name;
  if (!input.text) {
    const auto size = devices == 0 ? std::nullopt : std::optional(devices);
    if (std::optional<cluster::Cluster> preset = cluster::find_cluster(name, size)) return std::move(*preset);
    if (const std::optional<cluster::Cluster> pool = find_pool(input)) return of_pool(*pool, devices);
    if (!path_exists(name)) fail_unknown(name, "a cluster");
  }
  const Document file = read_cluster_file(input);
  refuse_pools(file);
  cluster::Cluster cluster = cluster::read_cluster(file, file_stem(name));
  cluster::refuse_fast_links(cluster);
  return devices == 0 ? cluster : cluster::resized(cluster, devices);
}

// `key` is where the name stood.
cost::SoftwareStack load_stack(const Input& input, std::string_view key) {
  const std::string& name = input.name;
  if (!input.text) {
    if (auto preset = cost::find_stack(name)) return *preset;
  }
  if (input.text || path_exists(name)) {
    return cost::read_stack(doc::parse_yaml(source_name(input), read_text(input)), file_stem(name));
  }
  std::vector<std::string> names;
  for (const cost::SoftwareStack& stack : cost::stack_presets()) names.push_back(stack.name);
  throw InputError(fmt::format("{}: `{}` is neither a file nor one of {}{}", key, clip(name, 40), join_words(names),
                               did_you_mean(name, names)));
}

// The model of a graph depends on the bytes of activations, so on the job.
cost::Job assemble(const NamedModel& model, const Run& run, const cost::SoftwareStack& stack,
                   const cluster::Cluster& cluster) {
  const auto make = [&] {
    if (!model.graph) return cost::make_job(model.architecture, run, stack, cluster);
    model::Implementation implementation;
    implementation.stack = stack.kernels;
    implementation.activation_bytes = cost::facts_of(run.precision).activation_bytes;
    graph::GraphModels models = graph::build_graph_models(*model.graph, implementation);
    models.model.architecture.document = model.architecture.document;
    return cost::make_job(std::move(models.model), std::move(models.fused_model), run, stack, cluster);
  };
  cost::Job job = make();
  job.title = model.title;
  return job;
}

Input or_default(const Input& input, const char* name) { return input.empty() ? Input(name) : input; }

// Devices of so many hosts; what is called a node is a rack on some clusters, and its trays are the hosts.
std::int64_t devices_of_nodes(const Input& input, const Question& question) {
  const cluster::Cluster cluster = load_cluster(input, 0);
  const std::optional<std::int64_t> node = cluster::devices_per_node(cluster);
  if (!node) {
    throw InputError(fmt::format("{}: a torus such as {} has none; say {}", option("nodes"), clip(cluster.name, 40),
                                 option("devices")));
  }
  const std::int64_t tray = cluster::devices_per_tray(cluster);
  const std::int64_t host = tray > 0 ? tray : *node;
  const std::int64_t devices = question.nodes * host;
  if (question.devices > 0 && question.devices != devices) {
    throw InputError(fmt::format("{}: {} of {} with {} devices each are {}, and {} says {}", option("nodes"),
                                 format_integer(question.nodes), clip(cluster.name, 40), host, format_integer(devices),
                                 option("devices"), format_integer(question.devices)));
  }
  return devices;
}

}  // namespace

std::int64_t asked_devices(const Question& question) {
  if (question.nodes == 0) return question.devices;
  return devices_of_nodes(or_default(question.cluster, "dgx-h100"), question);
}

namespace {

std::int64_t asked_batch(const Question& question, std::int64_t sequence) {
  if (question.batch_tokens == 0) return question.global_batch;
  if (question.global_batch > 0) {
    throw InputError(
        fmt::format("{}: is given in sequences and in tokens; leave out one of them", option("global_batch")));
  }
  return std::max<std::int64_t>(1, (question.batch_tokens + sequence / 2) / sequence);
}

std::int64_t usual_batch(const graph::RawGraph* graph, std::int64_t sequence) {
  const bool samples = graph && sequence == 1;
  return samples ? kUsualSamplesPerStep : std::max<std::int64_t>(1, kUsualTokensPerStep / sequence);
}

NamedModel model_of(const Plan& plan) {
  if (plan.model.config.empty()) return load_model(plan.model.name);
  NamedModel model = read_model(plan.model.config, plan.model.name);
  model.title = plan.model.title;
  return model;
}

cluster::Cluster cluster_of(const Plan& plan) {
  if (plan.cluster.description.empty()) return load_cluster(plan.cluster.name, plan.cluster.devices);
  return cluster::resized(cluster::read_cluster(plan.cluster.description, plan.cluster.name), plan.cluster.devices);
}

cost::SoftwareStack stack_of(const Plan& plan) {
  if (plan.stack.empty()) return load_stack(plan.run.stack, "run.stack");
  cost::SoftwareStack stack = cost::read_stack(plan.stack, plan.run.stack);
  if (stack.name != plan.run.stack) {
    throw InputError(fmt::format("{}: run.stack: is `{}`, but the stack that the plan describes is `{}`",
                                 plan.stack.name(), clip(plan.run.stack, 40), clip(stack.name, 40)));
  }
  // Files of before did not say what is known of the stacks that ship.
  const auto* facts = plan.stack.root().as_object();
  if (const auto preset = cost::find_stack(stack.name); preset && facts != nullptr && !facts->find("calibrated")) {
    stack.calibrated = preset->calibrated;
    stack.memory_spread = preset->memory_spread;
  }
  return stack;
}

// Measurements are of one stack; traced graphs are of no family that recipes are written for.
cost::StackChoice usual_stack(const NamedModel& model, const cluster::Device& device, Precision precision,
                              const cost::MeasuredProfile* profile) {
  if (profile != nullptr && cost::find_stack(profile->stack)) return {profile->stack, "that of the profile"};
  if (model.graph) return {"megatron-core", "for a traced graph"};
  return cost::default_stack(model.architecture, device, precision);
}

}  // namespace

cost::Job load_job(const Question& question) {
  const NamedModel model = load_model(or_default(question.model, "llama3-70b"));
  check_sequence(model, question.seq);
  const cluster::Cluster cluster = load_cluster(or_default(question.cluster, "dgx-h100"), asked_devices(question));
  Run run;
  run.sequence = question.seq > 0 ? question.seq : model.architecture.default_sequence;
  run.encoder_sequence = question.encoder_seq;
  run.mtp_layers = question.mtp_layers;
  run.routing = question.routing;
  run.freeze = question.freeze;
  run.lora = question.lora;
  const std::int64_t batch = asked_batch(question, run.sequence);
  run.global_batch = batch > 0 ? batch : usual_batch(model.graph.get(), run.sequence);
  run.precision = question.precision.value_or(Precision::bf16);
  run.optimizer = question.optimizer.value_or(Optimizer::adam);
  run.oom_risk = question.oom_risk;
  run.optimizer_offload = question.optimizer_offload;
  std::optional<cost::MeasuredProfile> profile;
  if (!question.profile.empty()) {
    profile = cost::read_profile(doc::parse_json(source_name(question.profile), read_text(question.profile)));
  }
  cost::StackChoice choice;
  if (question.stack.empty()) {
    choice = usual_stack(model, cluster.device, run.precision, profile ? &*profile : nullptr);
    run.stack_reason = choice.reason;
  }
  const Input stack = question.stack.empty() ? Input(choice.name) : question.stack;
  cost::Job job = assemble(model, run, load_stack(stack, option("stack")), cluster);
  if (profile) cost::attach_profile(job, std::move(*profile));
  return job;
}

cost::Job load_job(const Plan& plan) {
  cost::Job job = assemble(model_of(plan), plan.run, stack_of(plan), cluster_of(plan));
  if (!plan.profile.empty()) cost::attach_profile(job, cost::read_profile(plan.profile));
  return job;
}

}  // namespace nest::load
