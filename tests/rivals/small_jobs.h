// Seeded jobs that are planned in milliseconds: small models on a few devices of clusters of every kind, with memory
// from ample to scarce and limits as people set them.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>

#include "base/error.h"
#include "model/presets.h"
#include "rivals/rival.h"

namespace nest::test {

struct SmallJob {
  std::string name;
  cost::Job job;
  plan::PlanLimits limits;

  rivals::RivalRequest request() const {
    rivals::RivalRequest request;
    request.job = &job;
    request.limits = limits;
    return request;
  }
};

inline SmallJob small_job(std::uint32_t seed) {
  struct Place {
    const char* cluster;
    std::int64_t devices;
  };
  constexpr std::array<const char*, 6> kModels = {"bert-large",   "llama3.2-1b", "qwen3-0.6b",
                                                  "mixtral-790m", "gpt2-xl",     "phi-2"};
  constexpr std::array<Place, 7> kPlaces = {{{"dgx-h100", 8},
                                             {"dgx-h100", 16},
                                             {"h100-spine-leaf", 24},
                                             {"tpuv4-fat-tree", 16},
                                             {"tpuv4-torus", 8},
                                             {"dgx-a100", 16},
                                             {"h100-spine-leaf", 4}}};
  constexpr std::array<const char*, 8> kSettings = {"mbs=1",     "zero=0,1", "recompute=none,full", "schedule=1f1b",
                                                    "uniform=1", "pp=2..8",  "uneven_batch=0",      "sp=1"};
  constexpr std::array<double, 4> kMemory = {1, 1, 0.35, 0.2};
  std::mt19937_64 random(seed);
  const auto any = [&](const auto& list) { return list[random() % list.size()]; };
  const std::string model = any(kModels);
  const Place place = any(kPlaces);
  cluster::Cluster cluster = cluster::find_cluster(place.cluster, place.devices).value();
  cluster.device.memory_bytes =
      static_cast<std::int64_t>(any(kMemory) * static_cast<double>(cluster.device.memory_bytes));
  Run run;
  run.sequence = random() % 2 == 0 ? 512 : 1024;
  run.global_batch = std::array<std::int64_t, 4>{16, 32, 48, 64}[random() % 4];
  SmallJob small;
  small.job =
      cost::make_job(model::find_model_preset(model).value(), run, cost::find_stack(run.stack).value(), cluster);
  std::string said;
  if (random() % 2 == 0) {
    said = any(kSettings);
    plan::set_limit(small.limits, said);
  }
  small.name = model + " on " + std::to_string(place.devices) + " of " + place.cluster + ", batch " +
               std::to_string(run.global_batch) + " " + said;
  return small;
}

}  // namespace nest::test
