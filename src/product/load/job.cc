#include "load/job.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "cost/profile.h"
#include "graph/graph_model.h"
#include "graph/read_graph.h"
#include "load/catalogue.h"
#include "load/input.h"
#include "model/config.h"
#include "model/count.h"
#include "preset_data/preset_data.h"

namespace nest {
namespace {

constexpr std::int64_t kUsualTokensPerStep = std::int64_t{4} << 20;
constexpr std::int64_t kUsualSamplesPerStep = 1024;

// The file that a preset was read from.
Document preset_document(std::string_view folder, const std::string& name) {
  for (const EmbeddedFile& file : embedded_files(folder)) {
    if (file.name != name) continue;
    return folder == "models" ? parse_json(name, std::string(file.text)) : parse_yaml(name, std::string(file.text));
  }
  return {};
}

struct NamedCluster {
  Cluster cluster;
  Document description;
};

NamedCluster load_cluster(const std::string& name, std::int64_t devices) {
  const auto size = devices == 0 ? std::nullopt : std::optional(devices);
  if (std::optional<Cluster> preset = find_cluster(name, size)) {
    Document description = preset_document("clusters", preset->name);
    return {std::move(*preset), std::move(description)};
  }
  if (!path_exists(name)) fail_unknown(name, "a cluster");
  NamedCluster named;
  named.description = parse_yaml(source_name(name), read_text(name));
  named.cluster = read_cluster(named.description, file_stem(name));
  if (devices != 0) named.cluster = resized(named.cluster, devices);
  return named;
}

SoftwareStack load_stack(const std::string& name) {
  if (auto preset = find_stack(name)) return *preset;
  if (path_exists(name)) return read_stack(parse_yaml(source_name(name), read_text(name)), file_stem(name));
  std::vector<std::string> names;
  for (const SoftwareStack& stack : stack_presets()) names.push_back(stack.name);
  throw InputError(fmt::format("--stack: `{}` is neither a file nor one of {}{}", clip(name, 40), join_words(names),
                               did_you_mean(name, names)));
}

// The model of a graph depends on the bytes of activations, so on the job.
Job assemble(const Architecture& architecture, const RawGraph* graph, const Run& run, const Cluster& cluster) {
  const Optimizer optimizer = run.optimizer == "sgd" ? Optimizer::sgd : Optimizer::adam;
  const SoftwareStack stack = load_stack(run.stack);
  const ComputePrecision precision = parse_precision(run.precision);
  if (!graph) return make_job(architecture, run, stack, precision, optimizer, cluster);
  Implementation implementation;
  implementation.stack = stack.kernels;
  implementation.activation_bytes = precision == ComputePrecision::fp32 ? 4 : 2;
  GraphModels models = build_graph_models(*graph, implementation);
  return make_job(std::move(models.model), std::move(models.fused_model), run, stack, precision, optimizer, cluster);
}

std::int64_t usual_batch(const RawGraph* graph, std::int64_t sequence) {
  const bool samples = graph && sequence == 1;
  return samples ? kUsualSamplesPerStep : std::max<std::int64_t>(1, kUsualTokensPerStep / sequence);
}

NamedModel model_of(const Plan& plan) {
  if (plan.model.config.root.is_null()) return load_model(plan.model.name);
  NamedModel model;
  if (is_graph(plan.model.config)) {
    model.graph = std::make_shared<const RawGraph>(read_graph(plan.model.config));
  } else {
    model.architecture = read_config(plan.model.config, plan.model.name);
  }
  return model;
}

void check_sequence(const NamedModel& model, std::int64_t asked) {
  if (!model.graph || model.architecture.default_sequence > 1 || asked <= 1) return;
  throw InputError(fmt::format("--seq: {} has no sequence; its samples are of one size", model.title));
}

}  // namespace

LoadedJob load_job(const JobQuestion& question) {
  LoadedJob loaded;
  NamedModel model = load_model(question.model);
  check_sequence(model, question.sequence);
  NamedCluster cluster = load_cluster(question.cluster, question.devices);
  loaded.title = model.title;
  loaded.model_config = model.origin == "preset" ? preset_document("models", model.architecture.name) : model.document;
  loaded.cluster_description = cluster.description;
  Run run;
  run.sequence = question.sequence > 0 ? question.sequence : model.architecture.default_sequence;
  run.encoder_sequence = question.encoder_sequence;
  run.global_batch = question.global_batch > 0 ? question.global_batch : usual_batch(model.graph.get(), run.sequence);
  run.stack = question.stack;
  run.precision = question.precision;
  run.optimizer = question.optimizer;
  loaded.job = assemble(model.architecture, model.graph.get(), run, cluster.cluster);
  load_profile(question.profile, loaded.job);
  return loaded;
}

void load_profile(const std::string& path, Job& job) {
  if (path.empty()) return;
  attach_profile(job, read_profile(parse_json(source_name(path), read_text(path))));
}

LoadedJob load_job(const Plan& plan) {
  LoadedJob loaded;
  loaded.title = plan.model.name;
  loaded.model_config = plan.model.config;
  loaded.cluster_description = plan.cluster.description;
  const NamedModel model = model_of(plan);
  const Cluster cluster =
      plan.cluster.description.root.is_null()
          ? load_cluster(plan.cluster.name, plan.cluster.devices).cluster
          : resized(read_cluster(plan.cluster.description, plan.cluster.name), plan.cluster.devices);
  loaded.job = assemble(model.architecture, model.graph.get(), plan.run, cluster);
  return loaded;
}

void describe_job(const LoadedJob& loaded, Plan& plan) {
  const Job& job = loaded.job;
  plan.model = {job.model.architecture.name, job.model.architecture.family, count_parameters(job.model).total,
                loaded.model_config};
  plan.cluster = {job.cluster.name, job.cluster.device.name, job.cluster.devices, loaded.cluster_description};
  plan.run = job.run;
}

}  // namespace nest
