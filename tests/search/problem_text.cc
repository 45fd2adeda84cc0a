#include "problem_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cost/profile.h"
#include "plan/strategy_text.h"

namespace nest::test {
namespace {

using Json = nlohmann::ordered_json;

std::string device_yaml(const cluster::Device& device) {
  constexpr const char* kNames[] = {"fp32", "tf32", "bf16", "fp16", "fp8"};
  std::string text = fmt::format("device:\n  name: {}\n  peak: {{", device.name);
  bool any = false;
  for (std::size_t k = 0; k < cluster::kDevicePrecisions.size(); ++k) {
    if (device.peak_flops_per_s[k] <= 0) continue;
    text += fmt::format("{}{}: {:.17g}FLOPS", any ? ", " : "", kNames[k], device.peak_flops_per_s[k]);
    any = true;
  }
  text += fmt::format("}}\n  memory: {}B\n  memory_bandwidth: {:.17g}B/s\n  multiprocessors: {}\n", device.memory_bytes,
                      device.memory_bytes_per_s, device.multiprocessors);
  if (device.link_bytes_per_s > 0) text += fmt::format("  link_bandwidth: {:.17g}B/s\n", device.link_bytes_per_s);
  if (device.host_link_bytes_per_s > 0) text += fmt::format("  host_link: {:.17g}B/s\n", device.host_link_bytes_per_s);
  if (device.efficiency.empty()) return text;
  text += "  efficiency: {";
  any = false;
  for (const auto& [name, value] : device.efficiency) {
    text += fmt::format("{}{}: {:.17g}", any ? ", " : "", name, value);
    any = true;
  }
  return text + "}\n";
}

std::string level_yaml(const cluster::Level& level) {
  std::string text = fmt::format("  - {{name: {}, ", level.name);
  text += level.counts.empty() ? fmt::format("group: {}", level.group)
                               : fmt::format("counts: [{}]", fmt::join(level.counts, ", "));
  text += fmt::format(", bandwidth: {:.17g}B/s, latency: {:.17g}s, oversubscription: {:.17g}, efficiency: {:.17g}",
                      level.bandwidth_bytes_per_s, level.latency_s, level.oversubscription, level.efficiency);
  if (level.full_mesh) text += ", full_mesh: true";
  if (level.rails) text += ", rails: true";
  if (level.rail_switches) text += ", rail_switches: true";
  return text + "}\n";
}

void write(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

}  // namespace

std::string cluster_yaml(const cluster::Cluster& cluster) {
  std::string text = fmt::format("name: {}\n", cluster.name) + device_yaml(cluster.device);
  double overhead_s = cluster.fabric.message_overhead_s;
  if (cluster.torus) {
    overhead_s = cluster.torus->message_overhead_s;
    std::vector<std::string> wrap;
    for (const bool closed : cluster.torus->wrap) wrap.emplace_back(closed ? "true" : "false");
    text += fmt::format("torus: {{dims: [{}], wrap: [{}], bandwidth: {:.17g}B/s, latency: {:.17g}s}}\n",
                        fmt::join(cluster.torus->dims, ", "), fmt::join(wrap, ", "), cluster.torus->link_bytes_per_s,
                        cluster.torus->latency_s);
  } else {
    text += "levels:\n";
    for (const cluster::Level& level : cluster.levels) text += level_yaml(level);
    text += fmt::format("devices: {}\n", cluster.devices);
  }
  if (overhead_s > 0) text += fmt::format("message_overhead: {:.17g}s\n", overhead_s);
  return text;
}

std::string profile_json(const cost::Job& job) {
  if (!job.profile) return {};
  Json layers = Json::array();
  for (const cost::MeasuredLayer& layer : job.profile->layers) {
    Json entry = {{"model", layer.model},         {"layer", layer.layer},
                  {"tp", layer.split.tp},         {"sp", layer.split.sp},
                  {"cp", layer.split.cp},         {"ep", layer.split.ep},
                  {"etp", layer.split.etp},       {"micro_batch", layer.micro_batch},
                  {"sequence", layer.sequence},   {"parameters", layer.parameters},
                  {"forward_s", layer.forward_s}, {"backward_s", layer.backward_s}};
    if (layer.saved_bytes) entry["saved_bytes"] = *layer.saved_bytes;
    layers.push_back(std::move(entry));
  }
  const Json profile = {{"schema", "nest.profile/1"},
                        {"device", job.profile->device},
                        {"stack", job.profile->stack},
                        {"precision", to_string(job.profile->precision)},
                        {"layers", layers}};
  return profile.dump(1);
}

std::string command_line(const Problem& problem, const std::filesystem::path& folder) {
  const Run& run = problem.job.run;
  const auto file = [&](const char* name) { return (folder / name).string(); };
  std::string text = fmt::format(
      "nest plan --model {} --cluster {} --global-batch {} --seq {} --stack {} --precision {} --optimizer {} --top {}",
      file("model.json"), file("cluster.yaml"), run.global_batch, run.sequence, run.stack, to_string(run.precision),
      to_string(run.optimizer), problem.top);
  if (run.encoder_sequence > 0) text += fmt::format(" --encoder-seq {}", run.encoder_sequence);
  if (run.mtp_layers > 0) text += fmt::format(" --mtp-layers {}", run.mtp_layers);
  if (!run.freeze.empty()) text += " --freeze " + run.freeze;
  if (!run.lora.empty()) text += " --lora " + run.lora;
  if (run.optimizer_offload > 0) text += fmt::format(" --optimizer-offload {}", run.optimizer_offload);
  if (problem.job.profile) text += " --profile " + file("profile.json");
  if (problem.most_devices > 0) text += fmt::format(" --max-devices {}", problem.most_devices);
  if (problem.objective == PlanObjective::device_hours) text += " --objective device-hours";
  if (problem.megatron) text += " --target megatron";
  for (const std::string& setting : problem.settings) text += " --set " + setting;
  if (problem.limits.replicas_together) text += "\n# and: limits.replicas_together";
  for (const model::Edge& edge : problem.more_edges) {
    text += fmt::format("\n# and: a tensor from layer {} to layer {}, {} elements of {} bytes per token", edge.from,
                        edge.to.front(), edge.width, edge.element_bytes);
  }
  return text + "\n";
}

std::filesystem::path save_problem(const Problem& problem, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  write(folder / "model.json", problem.config);
  write(folder / "cluster.yaml", cluster_yaml(problem.job.cluster));
  write(folder / "profile.json", profile_json(problem.job));
  write(folder / "command.txt", command_line(problem, folder));
  return folder;
}

std::string problem_text(const Problem& problem) {
  std::string layers;
  for (const int kind : problem.job.model.layers) layers += fmt::format(" {}", kind);
  std::string text =
      fmt::format("seed {} (NEST_TEST_DRAW={} NEST_ORACLE_SEED={} runs this one alone), layers of kinds{}\n",
                  problem.seed, problem.draw, problem.seed, layers);
  text += command_line(problem, ".");
  text += fmt::format("--- model.json\n{}\n--- cluster.yaml\n{}", problem.config, cluster_yaml(problem.job.cluster));
  if (problem.job.profile) text += "--- profile.json\n" + profile_json(problem.job) + "\n";
  return text;
}

std::string strategy_line(const Strategy& strategy, const std::vector<StagePlan>& stages) {
  std::string text =
      fmt::format("{} dp_inner={} pitch={}:", plan::strategy_text(strategy), strategy.dp_inner, strategy.pitch);
  for (const StagePlan& stage : stages) {
    text += fmt::format(" [{}-{} {} zero {}/{}{}]", stage.first, stage.last, to_string(stage.recompute), stage.zero,
                        stage.zero_degree, stage.zero_outer ? " outer" : "");
  }
  return text;
}

}  // namespace nest::test
