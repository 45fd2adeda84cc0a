// Seeded jobs of a few layers on a few devices: small enough for every plan of a rival to be tried.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "model/presets.h"
#include "rivals/rival.h"

namespace nest::test {

// Levels from the inside out: children per switch, and the bandwidth of each in GB/s.
struct TinyLevel {
  std::int64_t group;
  double gigabytes_per_s;
};

inline cluster::Cluster tiny_cluster(const std::vector<TinyLevel>& levels, double memory_gigabytes) {
  cluster::Cluster cluster;
  cluster.name = "tiny";
  cluster.device = cluster::find_device("h100").value();
  cluster.device.memory_bytes = static_cast<std::int64_t>(memory_gigabytes * 1e9);
  cluster.devices = 1;
  constexpr std::array<const char*, 3> kNames = {"node", "rack", "pod"};
  for (const TinyLevel& given : levels) {
    cluster::Level level;
    level.name = kNames.at(cluster.levels.size());
    level.group = given.group;
    level.bandwidth_bytes_per_s = given.gigabytes_per_s * 1e9;
    level.latency_s = 2e-6 * static_cast<double>(1 + cluster.levels.size());
    cluster.levels.push_back(level);
    cluster.devices *= given.group;
  }
  cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
  return cluster;
}

// The first blocks of a model that ships with nest.
inline cost::Job tiny_job(const char* model, std::size_t blocks, std::int64_t batch, const cluster::Cluster& cluster) {
  model::Architecture architecture = model::find_model_preset(model).value();
  architecture.towers.back().blocks.resize(blocks);
  Run run;
  run.sequence = 1024;
  run.global_batch = batch;
  return cost::make_job(architecture, run, cost::find_stack(run.stack).value(), cluster);
}

// `levels`: 1 … 3.
inline cost::Job tiny_job(std::uint32_t seed, std::size_t levels) {
  std::mt19937_64 random(seed);
  const auto any = [&](const auto& list) { return list[random() % list.size()]; };
  constexpr std::array<const char*, 4> kModels = {"llama3.2-1b", "qwen3-0.6b", "mixtral-790m", "gpt2-xl"};
  constexpr std::array<double, 6> kSpeeds = {450, 200, 50, 25, 5, 1};
  std::vector<TinyLevel> shape;
  std::size_t fastest = random() % 3;
  for (std::size_t l = 0; l < levels; ++l) {
    const std::int64_t group =
        levels == 1 ? any(std::array<std::int64_t, 4>{2, 4, 6, 8}) : 2 + (l == 0 ? 2 * (random() % 2) : 0);
    shape.push_back({group, kSpeeds[fastest]});
    fastest = std::min(kSpeeds.size() - 1, fastest + 1 + random() % 2);
  }
  const char* const model = any(kModels);
  const std::size_t blocks = 2 + random() % 2;
  const double memory = any(std::array<double, 5>{80, 12, 8, 6, 4});
  return tiny_job(model, blocks, any(std::array<std::int64_t, 4>{4, 6, 8, 12}), tiny_cluster(shape, memory));
}

}  // namespace nest::test
