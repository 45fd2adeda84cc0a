// Exchanges that plans have in common.
#include "simulate/exchanges.h"

#include <gtest/gtest.h>

#include <map>

#include "model/presets.h"
#include "plan/pipeline_shape.h"
#include "simulate/lower.h"
#include "simulation_check/random_plan.h"
#include "test_support/scale.h"

namespace nest::simulate {
namespace {

cost::Job mixture_on_eight_nodes() {
  Run run;
  run.sequence = 2048;
  run.global_batch = 64;
  run.precision = cost::parse_precision("bf16");
  return cost::make_job(model::find_model_preset("mixtral-8x7b").value(), run,
                        cost::find_stack("megatron-core-moe").value(), cluster::find_cluster("dgx-h100", 64).value());
}

std::shared_ptr<const Exchanges> exchanges_of(ExchangeCache& cache, const cost::Job& job, const Strategy& s,
                                              const std::vector<StagePlan>& stages) {
  const schedule::Chain chain(schedule::rule_of(s.schedule), plan::pipeline_shape(s, job.run.global_batch));
  return cache.get(s, plan_work(job, s, stages), chain, Merge::alike);
}

// Micro-batches, recomputation and cuts say how much travels; placement says where.
TEST(Exchanges, AreSharedByPlansThatLieAlike) {
  const cost::Job job = mixture_on_eight_nodes();
  ExchangeCache cache(job.cluster);
  Strategy s;
  s.split.ep = 8;
  s.pp = 4;
  s.dp = 16;
  s.dp_inner = 8;
  const auto first = exchanges_of(cache, job, s, cost::even_stages(job, s, Recompute::none, 1));
  EXPECT_EQ(first, exchanges_of(cache, job, s, cost::even_stages(job, s, Recompute::full, 1)));
  std::vector<StagePlan> uneven = cost::even_stages(job, s, Recompute::none, 1);
  --uneven.front().last;
  --uneven.back().first;
  EXPECT_EQ(first, exchanges_of(cache, job, s, uneven));
  Strategy larger = s;
  larger.micro_batch *= 2;
  EXPECT_EQ(first, exchanges_of(cache, job, larger, cost::even_stages(job, larger, Recompute::none, 1)));
  // The same groups scatter and gather, more often.
  EXPECT_EQ(first, exchanges_of(cache, job, s, cost::even_stages(job, s, Recompute::none, 3)));
  Strategy fewer = s;
  fewer.split.ep = 4;
  EXPECT_NE(first, exchanges_of(cache, job, fewer, cost::even_stages(job, fewer, Recompute::none, 1)));
  Strategy together = s;
  together.dp_inner = s.dp;
  EXPECT_NE(first, exchanges_of(cache, job, together, cost::even_stages(job, together, Recompute::none, 1)));
}

// Whatever was asked for before, a plan's program is the one that it has by itself.
TEST(Exchanges, OfOthersChangeNoProgram) {
  std::map<std::string, std::pair<RandomPlan, std::unique_ptr<ExchangeCache>>> caches;
  const std::uint32_t plans = test::scaled(400, 40);
  for (std::uint32_t seed = 0; seed < plans; ++seed) {
    const RandomPlan plan = random_plan(seed);
    const std::string name = plan.job.cluster.name + std::to_string(plan.job.cluster.devices);
    auto& [owner, cache] = caches[name];
    if (cache == nullptr) {
      owner = plan;
      cache = std::make_unique<ExchangeCache>(owner.job.cluster);
    }
    for (const Merge merge : {Merge::alike, Merge::inside_replicas}) {
      if (merge == Merge::inside_replicas && plan.strategy.devices_used() > 64) continue;
      const LoweredPlan alone = lower_plan(plan.job, plan.strategy, plan.stages, 1, merge);
      const LoweredPlan beside = lower_plan(plan.job, plan.strategy, plan.stages, 1, merge, cache.get());
      EXPECT_EQ(alone.program, beside.program) << "seed " << seed;
    }
  }
  EXPECT_LT(caches.size(), plans);  // some of them were shared
}

}  // namespace
}  // namespace nest::simulate
