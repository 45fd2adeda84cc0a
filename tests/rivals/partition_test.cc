// The partition of longer chains against the planner's own search, held to one strategy.
#include "rivals/partition.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "search/planner.h"
#include "tiny_jobs.h"

namespace nest::rivals {
namespace {

TEST(ChainPartition, AgreesWithTheSearch) {
  constexpr std::array<const char*, 4> kModels = {"llama3.2-1b", "qwen3-0.6b", "mixtral-790m", "bert-large"};
  int found = 0, mixed = 0;
  for (std::uint32_t seed = 1; seed <= 800; ++seed) {
    std::mt19937 random(seed);
    Strategy strategy;
    strategy.pp = 2 + random() % 4;
    strategy.dp = strategy.dp_inner = 1 + random() % 2;
    strategy.split.tp = 1 + random() % 2;
    strategy.split.sp = strategy.split.tp > 1;
    strategy.micro_batch = 4 << random() % 3;
    const std::int64_t devices = strategy.devices_used();
    const cluster::Cluster cluster = test::tiny_cluster({{devices, 5 + static_cast<double>(random() % 50)}}, 80);
    cost::Job job = test::tiny_job(kModels[random() % 4], 5 + random() % 4, 64 + 32 * (random() % 3), cluster);
    // From most of what an even cut needs that neither shards nor recomputes to less than half of that.
    std::int64_t needed = 0;
    const std::vector<StagePlan> even = cost::even_stages(job, strategy, Recompute::none, 0);
    for (const StagePlan& stage : cost::evaluate(job, strategy, even).stages)
      needed = std::max(needed, stage.memory.needed);
    job.cluster.device.memory_bytes = needed * static_cast<std::int64_t>(45 + random() % 55) / 100;
    search::PlanRequest request;
    request.job = &job;
    for (const std::string& setting :
         {fmt::format("tp={}", strategy.split.tp), fmt::format("pp={}", strategy.pp), fmt::format("dp={}", strategy.dp),
          fmt::format("mbs={}", strategy.micro_batch), std::string("sp=1"), std::string("cp=1"), std::string("ep=1"),
          fmt::format("etp={}", strategy.split.tp), fmt::format("dp_inner={}", strategy.dp), std::string("vpp=1"),
          fmt::format("uniform={}", seed % 5 == 0 ? 1 : 0)}) {
      plan::set_limit(request.limits, setting);
    }
    const search::PlanAnswer best = search::make_plan(request);
    const search::PlanSpace space(job, request.limits, devices);
    search::PriceCache prices(job);
    ChainPartition partition(space, prices);
    const auto answer = partition.solve(strategy, std::numeric_limits<double>::infinity());
    ASSERT_EQ(answer.has_value(), !best.plans.empty()) << "seed " << seed;
    if (!answer) continue;
    ++found;
    const double optimal_s = best.plans.front().prediction.iteration_s;
    ASSERT_NEAR(answer->time_s, optimal_s, 1e-9 * optimal_s) << "seed " << seed;
    const auto unlike = [&](const StagePlan& stage) {
      return stage.zero != answer->stages.front().zero || stage.recompute != answer->stages.front().recompute;
    };
    mixed += std::any_of(answer->stages.begin(), answer->stages.end(), unlike) ? 1 : 0;
  }
  EXPECT_GT(found, 200);
  EXPECT_GT(mixed, 20) << "stages that differ in what they recompute or shard";
}

}  // namespace
}  // namespace nest::rivals
