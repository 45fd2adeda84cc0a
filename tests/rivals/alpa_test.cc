#include "rivals/alpa.h"

#include <gtest/gtest.h>

#include "rivals/alpa_ilp.h"
#include "rivals/alpa_layer.h"
#include "rivals/alpa_mesh.h"
#include "tiny_jobs.h"

namespace nest::rivals {
namespace {

using test::tiny_cluster;
using test::tiny_job;

constexpr AxisRules kOpen = {AxisRule::open, AxisRule::open};

// The kind of the first block.
int block_of(const cost::Job& job) { return job.model.layers[1]; }

TEST(AlpaMesh, PricesCollectivesByTheirAxis) {
  const MeshAxis axis{4, 1e-6, 100e9};
  EXPECT_DOUBLE_EQ(axis.all_gather_s(8e9), 1e-6 + 0.75 * 0.08);
  EXPECT_DOUBLE_EQ(axis.all_reduce_s(8e9), 1e-6 + 1.5 * 0.08);
  EXPECT_DOUBLE_EQ(axis.all_to_all_s(8e9), 1e-6 + 0.75 / 4 * 0.08);
  EXPECT_EQ((MeshAxis{1, 1e-6, 1.0}).all_reduce_s(1e9), 0);
}

TEST(AlpaMesh, MeasuresEachAxisOnTheNetwork) {
  // Four devices of a node share its link of 25 GB/s when all of them exchange with other nodes.
  const cluster::Cluster cluster = tiny_cluster({{4, 400}, {2, 25}}, 80);
  const LogicalMesh mesh = logical_mesh(cluster, 2, 4);
  EXPECT_EQ(mesh[0].size, 2);
  EXPECT_EQ(mesh[1].size, 4);
  EXPECT_NEAR(mesh[0].bytes_per_s, 25e9 / 4, 1e-6 * 25e9);
  EXPECT_NEAR(mesh[1].bytes_per_s, 400e9, 1e-3 * 400e9);
}

TEST(AlpaLayer, OneSequenceIsDividedByTensors) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without an ILP solver";
  const cost::Job job = tiny_job("llama3.2-1b", 2, 8, tiny_cluster({{4, 400}}, 80));
  const auto layer = mesh_layer(job, block_of(job), logical_mesh(job.cluster, 1, 4), 1, kOpen, 0).layer;
  ASSERT_TRUE(layer);
  EXPECT_GT(layer->work[1].tensor, 0);
  EXPECT_EQ(layer->work[1].data, 0);
  EXPECT_EQ(layer->work[1].replicated, 0);
}

TEST(AlpaLayer, ManySequencesOnASlowNetworkAreDividedByData) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without an ILP solver";
  const cost::Job job = tiny_job("llama3.2-1b", 2, 256, tiny_cluster({{4, 1}}, 80));
  const auto layer = mesh_layer(job, block_of(job), logical_mesh(job.cluster, 1, 4), 32, kOpen, 0).layer;
  ASSERT_TRUE(layer);
  EXPECT_EQ(layer->work[1].tensor, 0);
  EXPECT_GT(layer->work[1].data, 0);
  const auto told =
      mesh_layer(job, block_of(job), logical_mesh(job.cluster, 1, 4), 32, {AxisRule::open, AxisRule::tensor}, 0).layer;
  ASSERT_TRUE(told);
  EXPECT_EQ(told->work[1].data, 0);
  EXPECT_GT(told->cost_s, layer->cost_s);
}

TEST(AlpaLayer, DataOutsideAndTensorsInsideNodes) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without an ILP solver";
  // Two sequences on two nodes of four: each node has room for one, and its devices for a part of it.
  const cost::Job job = tiny_job("llama3.2-1b", 2, 64, tiny_cluster({{4, 400}, {2, 25}}, 80));
  const auto layer = mesh_layer(job, block_of(job), logical_mesh(job.cluster, 2, 4), 2, kOpen, 0).layer;
  ASSERT_TRUE(layer);
  EXPECT_GT(layer->work[0].data, layer->work[0].tensor);
  EXPECT_GT(layer->work[1].tensor, layer->work[1].data);
}

TEST(AlpaLayer, ExpertsAreSpreadWhereTheirWeightsCostMoreThanTheirTokens) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without an ILP solver";
  const cost::Job job = tiny_job("mixtral-790m", 2, 4, tiny_cluster({{4, 25}}, 80));
  const auto layer = mesh_layer(job, block_of(job), logical_mesh(job.cluster, 1, 4), 4, kOpen, 0).layer;
  ASSERT_TRUE(layer);
  EXPECT_GT(layer->work[1].expert_whole, layer->work[1].expert_data);
}

TEST(Alpa, PlansOnePipelineAndIsNoFasterThanTheOptimum) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without an ILP solver";
  int planned = 0;
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    const cost::Job job = tiny_job(seed, 1 + seed % 3);
    RivalRequest request;
    request.job = &job;
    plan::set_limit(request.limits, "mbs=1,2");
    search::PlanRequest plan;
    plan.job = &job;
    plan.limits = request.limits;
    const search::PlanAnswer best = search::make_plan(plan);
    const RivalAnswer answer = plan_alpa(request);
    if (!answer.plan) {
      EXPECT_FALSE(answer.note.empty()) << "seed " << seed;
      continue;
    }
    ++planned;
    ASSERT_FALSE(best.plans.empty()) << "seed " << seed;
    const Strategy& strategy = answer.plan->strategy;
    EXPECT_EQ(strategy.dp_inner, strategy.dp);
    EXPECT_TRUE(answer.plan->fits);
    EXPECT_GE(answer.plan->prediction.iteration_s, best.plans.front().prediction.iteration_s * (1 - 1e-9))
        << "seed " << seed;
  }
  EXPECT_GT(planned, 5);
}

TEST(Alpa, KeepsToWhatIsAskedFor) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without an ILP solver";
  const cost::Job job = tiny_job("llama3.2-1b", 2, 8, tiny_cluster({{4, 400}, {2, 25}}, 80));
  RivalRequest request;
  request.job = &job;
  plan::set_limit(request.limits, "tp=2");
  plan::set_limit(request.limits, "pp=2");
  const RivalAnswer answer = plan_alpa(request);
  ASSERT_TRUE(answer.plan) << answer.note;
  EXPECT_EQ(answer.plan->strategy.split.tp, 2);
  EXPECT_EQ(answer.plan->strategy.pp, 2);
  EXPECT_EQ(answer.plan->strategy.dp, 2);
}

TEST(Alpa, SaysThatItWasStopped) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without an ILP solver";
  const cost::Job job = tiny_job(3, 2);
  RivalRequest request;
  request.job = &job;
  request.time_limit_s = 1e-9;
  const RivalAnswer answer = plan_alpa(request);
  EXPECT_EQ(answer.note, "stopped by the time limit");
  EXPECT_TRUE(answer.stopped);
}

}  // namespace
}  // namespace nest::rivals
