#include "simulation_check/random_plan.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "cost/group_time.h"
#include "model/presets.h"
#include "simulation_check/dice.h"
#include "simulation_check/networks.h"

namespace nest {
namespace {

constexpr int kTries = 100'000;

constexpr std::array kModels = {"llama3-8b",  "llama2-13b",   "llama3-70b",   "gpt3-35b",      "gpt3-175b",
                                "bert-large", "mixtral-8x7b", "mixtral-790m", "mixtral-8x22b", "qwen3-30b-a3b"};
constexpr std::array kStacks = {"megatron-core", "megatron-core", "megatron-core-plain", "megatron-core-moe",
                                "fsdp2",         "nanotron",      "megatron-deepspeed"};
constexpr std::array<std::int64_t, 8> kDevices = {8, 16, 32, 64, 128, 256, 512, 1024};

// A list of its own, so that a new preset does not draw another sample: one of every kind of network.
constexpr std::array kClusters = {"dgx-a100",       "dgx-b200",    "dgx-h100",        "dgx-h200",
                                  "gb200-nvl64",    "gb200-nvl72", "h100-spine-leaf", "mi300x-cluster",
                                  "tpuv4-fat-tree", "tpuv4-torus", "tpuv5p-torus",    "v100-cluster"};

std::optional<cluster::Cluster> draw_slow_cluster(Dice& dice, std::uint32_t seed) {
  static const std::vector<Network> kNetworks = slow_networks();
  const std::int64_t devices = dice.pick(kDevices);
  try {
    return network_cluster(kNetworks[seed % kNetworks.size()].name, devices);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::optional<cluster::Cluster> draw_cluster(Dice& dice, std::uint32_t seed) {
  const cluster::Cluster preset = cluster::find_cluster(kClusters[seed % kClusters.size()]).value();
  const std::int64_t devices = dice.pick(kDevices);
  if (devices < preset.sizes.at_least || devices > preset.sizes.at_most) return std::nullopt;
  try {
    return cluster::resized(preset, devices);
  } catch (const InputError&) {
    return std::nullopt;  // not in whole nodes
  }
}

std::optional<Strategy> draw_strategy(Dice& dice, const cost::Job& job, DrawnFrom from) {
  constexpr std::array<std::int64_t, 5> kTensor = {1, 2, 4, 8, 16};
  constexpr std::array<std::int64_t, 6> kContext = {1, 1, 1, 1, 2, 4};
  constexpr std::array<std::int64_t, 5> kExpert = {1, 2, 4, 8, 16};
  constexpr std::array<std::int64_t, 10> kStages = {1, 2, 2, 3, 4, 4, 6, 8, 8, 16};
  constexpr std::array<std::int64_t, 10> kDeepStages = {1, 2, 2, 4, 4, 8, 8, 16, 16, 32};
  constexpr std::array<std::int64_t, 4> kMicro = {1, 1, 2, 4};
  const bool mixture = std::any_of(job.model.kinds.begin(), job.model.kinds.end(),
                                   [](const model::Layer& layer) { return layer.experts > 0; });
  Strategy s;
  s.split.tp = dice.pick(kTensor);
  s.split.sp = s.split.tp > 1 && (dice.chance(60) || mixture);
  s.split.cp = dice.pick(kContext);
  s.split.ep = mixture ? dice.pick(kExpert) : 1;
  if (mixture && s.split.tp > 1 && dice.chance(30)) {
    s.split.etp = 1;
    s.split.ep *= s.split.tp;
  }
  s.pp = dice.pick(from == DrawnFrom::slow ? kDeepStages : kStages);
  s.micro_batch = dice.pick(kMicro);
  const std::int64_t team = s.split.team(), teams = job.cluster.devices / (s.split.team_devices() * s.pp);
  if (teams < 1) return std::nullopt;
  s.dp = teams * team;
  s.dp_inner = team * (dice.chance(50) ? (dice.chance(50) ? teams : 1) : dice.divisor(teams));
  if (s.pp > 1 && dice.chance(35)) {
    s.schedule = Schedule::interleaved;
    s.virtual_stages = 2 + dice.below(4);
  } else if (s.pp > 1 && dice.chance(15)) {
    s.schedule = Schedule::gpipe;
  }
  return s;
}

// Micro-batches from few to many; interleaved schedules want multiples of the stages.
std::int64_t draw_batch(Dice& dice, const Strategy& s, DrawnFrom from) {
  constexpr std::array<std::int64_t, 9> kMicroBatches = {1, 2, 4, 8, 12, 16, 24, 32, 64};
  constexpr std::array<std::int64_t, 9> kMoreMicroBatches = {2, 4, 8, 12, 16, 24, 32, 64, 128};
  std::int64_t m = dice.pick(from == DrawnFrom::slow ? kMoreMicroBatches : kMicroBatches);
  if (s.schedule == Schedule::interleaved) m = std::max<std::int64_t>(1, m / s.pp) * s.pp;
  return m * s.micro_batch * s.dp;
}

std::vector<StagePlan> draw_stages(Dice& dice, const cost::Job& job, const Strategy& s) {
  const auto recompute = static_cast<Recompute>(dice.below(3));
  const int zero = dice.chance(50) ? 1 : static_cast<int>(dice.below(4));
  std::int64_t degree = groups::dense_replicas(s);
  if (dice.chance(25)) {
    degree = dice.divisor(degree);
    if (!groups::can_shard(s, degree)) degree = groups::dense_replicas(s);
  }
  std::vector<StagePlan> stages = cost::even_stages(job, s, recompute, zero, zero == 0 ? 1 : degree);
  // Sometimes a boundary is moved.
  for (std::size_t b = 0; b + 1 < stages.size(); ++b) {
    if (!dice.chance(25)) continue;
    const int shift = dice.chance(50) ? 1 : -1;
    if (stages[b].last + shift - stages[b].first + 1 < s.virtual_stages ||
        stages[b + 1].last - (stages[b + 1].first + shift) + 1 < s.virtual_stages) {
      continue;
    }
    stages[b].last += shift;
    stages[b + 1].first += shift;
  }
  return stages;
}

std::optional<RandomPlan> draw(Dice& dice, std::uint32_t seed, DrawnFrom from) {
  const std::optional<cluster::Cluster> cluster =
      from == DrawnFrom::slow ? draw_slow_cluster(dice, seed) : draw_cluster(dice, seed);
  RandomPlan plan;
  plan.seed = seed;
  plan.from = from;
  plan.model = dice.pick(kModels);
  const auto stack = cost::find_stack(dice.pick(kStacks));
  if (!cluster || !stack) return std::nullopt;
  const auto architecture = model::find_model_preset(plan.model);
  if (!architecture) return std::nullopt;
  Run run;
  run.sequence = std::min<std::int64_t>(architecture->default_sequence, dice.chance(50) ? 4096 : 2048);
  run.global_batch = 1;
  run.stack = stack->name;
  const bool old = cluster->device.peak(Precision::bf16) <= 0;
  run.precision = old ? Precision::fp16 : Precision::bf16;
  plan.job = cost::make_job(*architecture, run, *stack, *cluster);
  const std::optional<Strategy> strategy = draw_strategy(dice, plan.job, from);
  if (!strategy || strategy->pp > static_cast<std::int64_t>(plan.job.model.layers.size())) return std::nullopt;
  plan.strategy = *strategy;
  plan.job.run.global_batch = draw_batch(dice, plan.strategy, from);
  const split::RunShape shape{plan.strategy.micro_batch, run.sequence, 0, 1.0};
  if (!split::refuse_split(plan.job.model, shape, plan.strategy.split).empty()) return std::nullopt;
  plan.stages = draw_stages(dice, plan.job, plan.strategy);
  if (!refuse_strategy(plan.job, plan.strategy, plan.stages).empty()) return std::nullopt;
  plan.evaluation = evaluate(plan.job, plan.strategy, plan.stages);
  if (!plan.evaluation.fits) return std::nullopt;
  return plan;
}

}  // namespace

RandomPlan random_plan(std::uint32_t seed, DrawnFrom from) {
  Dice dice(seed);
  for (int i = 0; i < kTries; ++i) {
    if (std::optional<RandomPlan> plan = draw(dice, seed, from)) return std::move(*plan);
  }
  throw InternalError("no plan was found for seed " + std::to_string(seed));
}

}  // namespace nest
