// Real models: random plans, priced by evaluate(), are never better than what the solver proves for their key, and no
// bound exceeds what it bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "model/presets.h"
#include "search/leaf.h"
#include "search/planner.h"

namespace nest::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Scene {
  const char* model;
  const char* cluster;
  std::int64_t devices;
  const char* stack;
};

template <class T>
const T& any_of(std::mt19937& random, const std::vector<T>& list) {
  return list[random() % list.size()];
}

std::optional<Key> random_key(std::mt19937& random, const PlanSpace& space) {
  Key key;
  key.split = static_cast<int>(random() % space.splits().size());
  key.micro_batch = static_cast<int>(random() % std::min<std::size_t>(3, space.micro_batches().size()));
  if (!space.admits_pair(key)) return std::nullopt;
  key.stages = 1 + static_cast<std::int64_t>(
                       random() % static_cast<std::uint64_t>(std::min<std::int64_t>(16, space.most_stages(key))));
  key.schedule = static_cast<int>(random() % space.schedules().size());
  if (!space.admits_schedule(key)) return std::nullopt;
  const auto plateau = space.plateau(
      key, 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(space.most_replicas(key))));
  if (!plateau) return std::nullopt;
  key.replicas = *space.next_replicas(key, *plateau);
  key.inner_replicas = any_of(random, space.inner_replicas(key));
  const auto pitches = space.pitches(key);
  if (pitches.empty()) return std::nullopt;
  key.pitch = any_of(random, pitches);
  return key;
}

std::vector<StagePlan> random_stages(std::mt19937& random, const PlanSpace& space, const Strategy& strategy) {
  const int n = static_cast<int>(space.layers()), p = static_cast<int>(strategy.pp);
  const int least = static_cast<int>(strategy.virtual_stages);
  // Near-even cuts, moved a little, because others hardly ever fit.
  std::vector<int> cuts{0};
  for (int s = 1; s < p; ++s) {
    const int goal = n * s / p + static_cast<int>(random() % 3) - 1;
    cuts.push_back(std::clamp(goal, cuts.back() + least, n - least * (p - s)));
  }
  cuts.push_back(n);
  std::vector<StagePlan> stages(static_cast<std::size_t>(p));
  const auto inner = space.node_degree(strategy);
  const int common = static_cast<int>(random() % 3);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].first = cuts[s];
    stages[s].last = cuts[s + 1] - 1;
    stages[s].recompute = static_cast<Recompute>(random() % 4 == 0 ? static_cast<int>(random() % 3) : common);
    stages[s].zero = static_cast<int>(random() % 4);
    stages[s].zero_degree = inner && stages[s].zero > 0 && random() % 2 == 0 ? *inner : 0;
    const bool wider = stages[s].zero == 3 && stages[s].zero_degree > 0 && space.job().stack.hybrid_sharding;
    stages[s].zero_outer = wider && random() % 2 == 0;
  }
  return stages;
}

cost::Job job_of(const Scene& scene) {
  Run run;
  run.global_batch = 96;
  run.sequence = std::string(scene.model) == "bert-large" ? 512 : 2048;
  run.stack = scene.stack;
  if (std::string(scene.cluster) == "v100-cluster") run.precision = Precision::fp16;
  return cost::make_job(model::find_model_preset(scene.model).value(), run, cost::find_stack(scene.stack).value(),
                        cluster::find_cluster(scene.cluster, scene.devices).value());
}

TEST(PlannerBounds, NoRandomPlanBeatsTheProof) {
  const std::vector<Scene> scenes = {{"llama3-8b", "dgx-h100", 16, "megatron-core"},
                                     {"llama2-13b", "h100-spine-leaf", 64, "megatron-core"},
                                     {"llama3-8b", "h100-spine-leaf", 32, "fsdp2"},
                                     {"mixtral-8x7b", "dgx-h100", 32, "megatron-core"},
                                     {"bert-large", "v100-cluster", 16, "megatron-deepspeed"},
                                     {"llama2-7b", "tpuv4-fat-tree", 64, "megatron-core"}};
  std::mt19937 random(20);
  int compared = 0, fitting = 0;
  for (const Scene& scene : scenes) {
    const cost::Job job = job_of(scene);
    plan::PlanLimits limits;
    limits.uneven_batch = limits.any_rounds = true;
    const PlanSpace space(job, limits, scene.devices);
    PriceCache prices(job);
    LeafSolver solver(space);
    for (int round = 0; round < 120; ++round) {
      const std::optional<Key> key = random_key(random, space);
      if (!key) continue;
      const Strategy strategy = space.strategy(*key);
      const PairPrices& pair = *prices.get(strategy.split, strategy.micro_batch);
      const double by_hops = solver.message_bound_s(*key, pair);
      const auto best = solver.solve(*key, pair, kInfinity);
      const double low = solver.low_s();
      const double optimum = best ? best->time_s : kInfinity;
      EXPECT_LE(by_hops, optimum * (1 + 1e-9));
      EXPECT_LE(low, optimum * (1 + 1e-9));
      if (best) {
        // Found again when the limit is the value itself, not found just below it.
        EXPECT_TRUE(solver.solve(*key, pair, optimum));
        EXPECT_FALSE(solver.solve(*key, pair, optimum * (1 - 1e-9)));
      }
      for (int draw = 0; draw < 6; ++draw) {
        const auto stages = random_stages(random, space, strategy);
        if (!cost::refuse_strategy(job, strategy, stages).empty()) continue;
        const Plan evaluation = cost::evaluate(job, strategy, stages);
        ++compared;
        if (!evaluation.fits) continue;
        ++fitting;
        EXPECT_GE(evaluation.prediction.iteration_s, low * (1 - 1e-9));
        EXPECT_GE(evaluation.prediction.iteration_s, optimum * (1 - 1e-9))
            << scene.model << " pp=" << strategy.pp << " vpp=" << strategy.virtual_stages;
      }
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(fitting, 300);
}

// Memory exactly as large as a plan needs: the plan must be found, or one that is no slower.
TEST(PlannerBounds, APlanThatJustFitsIsFound) {
  const std::vector<Scene> scenes = {{"llama3-8b", "dgx-h100", 16, "megatron-core"},
                                     {"mixtral-8x7b", "dgx-h100", 32, "megatron-core"},
                                     {"llama3-8b", "h100-spine-leaf", 32, "fsdp2"},
                                     {"llama2-7b", "dgx-a100", 16, "nanotron"},
                                     {"llama2-7b", "dgx-a100", 16, "internevo"},
                                     {"llama2-7b", "dgx-a100", 16, "pytorch"},
                                     {"bert-large", "v100-cluster", 16, "megatron-deepspeed"}};
  std::mt19937 random(21);
  int compared = 0;
  for (const Scene& scene : scenes) {
    cost::Job job = job_of(scene);
    plan::PlanLimits limits;
    limits.uneven_batch = limits.any_rounds = true;
    const PlanSpace space(job, limits, scene.devices);
    for (int round = 0; round < 150; ++round) {
      const std::optional<Key> key = random_key(random, space);
      if (!key) continue;
      const Strategy strategy = space.strategy(*key);
      const auto stages = random_stages(random, space, strategy);
      if (!cost::refuse_strategy(job, strategy, stages).empty()) continue;
      const Plan evaluation = cost::evaluate(job, strategy, stages);
      std::int64_t needed = 0;
      for (const StagePlan& stage : evaluation.stages) needed = std::max(needed, stage.memory.needed);
      job.cluster.device.memory_bytes = needed;
      PriceCache prices(job);
      const PairPrices& pair = *prices.get(strategy.split, strategy.micro_batch);
      LeafSolver solver(space);
      const auto best = solver.solve(*key, pair, evaluation.prediction.iteration_s * (1 + 1e-9));
      EXPECT_TRUE(best) << scene.model << " " << scene.stack << " pp=" << strategy.pp
                        << " vpp=" << strategy.virtual_stages << " needs " << needed;
      ++compared;
    }
  }
  EXPECT_GT(compared, 300);
}

}  // namespace
}  // namespace nest::search
